"""The Kueue resources that holdback talks about (API version v1beta2, served since Kueue v0.15)."""

from __future__ import annotations

from holdback.clusters.kinds import Kind

__all__ = [
    "ADMISSION_CHECKS",
    "CLUSTER_QUEUES",
    "LOCAL_QUEUES",
    "MULTIKUEUE_CLUSTERS",
    "MULTIKUEUE_CONFIGS",
    "RESOURCE_FLAVORS",
    "WORKLOADS",
    "WORKLOAD_PRIORITY_CLASSES",
]

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"

WORKLOADS = Kind(_GROUP, _VERSION, "Workload", "workloads")
LOCAL_QUEUES = Kind(_GROUP, _VERSION, "LocalQueue", "localqueues")
CLUSTER_QUEUES = Kind(_GROUP, _VERSION, "ClusterQueue", "clusterqueues", namespaced=False)
RESOURCE_FLAVORS = Kind(_GROUP, _VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
ADMISSION_CHECKS = Kind(_GROUP, _VERSION, "AdmissionCheck", "admissionchecks", namespaced=False)
MULTIKUEUE_CONFIGS = Kind(_GROUP, _VERSION, "MultiKueueConfig", "multikueueconfigs", namespaced=False)
MULTIKUEUE_CLUSTERS = Kind(_GROUP, _VERSION, "MultiKueueCluster", "multikueueclusters", namespaced=False)
WORKLOAD_PRIORITY_CLASSES = Kind(_GROUP, _VERSION, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)
