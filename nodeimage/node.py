"""The node image itself: Debian, Kubernetes, containerd, kind's own files, and container images unpacked in place."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.process import await_ready, child
from nodeimage import containers, debian
from nodeimage.archive import write_archive
from nodeimage.workbench import FILES, NodeBench, install

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdback.binaries.progress import Task

__all__ = ["EXECUTABLES", "write_node"]

_SUITE = "bookworm"
_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "nftables", "ebtables", "iproute2", "ethtool"),
    *("util-linux", "mount", "kmod", "libseccomp2", "pigz", "bash", "ca-certificates", "curl", "jq", "procps", "socat"),
    *("runc", "containernetworking-plugins"),
)
_OF_NODE = {
    "usr/bin": ("kubeadm", "kubelet", "kubectl"),
    "usr/local/bin": ("containerd", "containerd-shim-runc-v2", "ctr", "crictl"),
}
_IN_CONTAINERS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "etcd",
    "coredns",
    "pause",
)
EXECUTABLES = tuple(name for names in (*_OF_NODE.values(), _IN_CONTAINERS) for name in names if name != "pause")
"""What is built from pins; `pause` has its source here."""
_PLUGINS = ("bridge", "host-local", "loopback", "portmap", "ptp")
_UNWANTED_UNITS = (
    "lib/systemd/system/multi-user.target.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/basic.target.wants/*",
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "etc/systemd/system/*.wants/*",
)
"""What makes no sense in a container; the same as in kind's own nodes."""
_LABEL = "io.cri-containerd.pinned=pinned"  # else the kubelet may remove an image that nobody could bring back


def write_node(bench: NodeBench, target: Path, *, name: str, version: str, key: str, task: Task) -> None:
    """Write the node image to the archive `target`.

    Args:
        bench: the executables and the scratch folder.
        target: what `docker load` is to read.
        name: of the image.
        version: of Kubernetes.
        key: kept as the label `holdback.key`, to tell one build from another.
        task: shows what is being done.

    Raises:
        BuildError: a step failed; with the end of what was said.
    """
    root = bench.scratch / "node"
    task.note = "making the root file system"
    debian.bootstrap(bench, root, _SUITE, _PACKAGES)
    task.note = "making container images"
    wanted = containers.names(bench, version)
    folder = bench.scratch / "archives"
    folder.mkdir()
    archives = containers.write_all(bench, root, wanted, folder)
    task.note = "putting the node together"
    _install(bench, root, version)
    _configure(bench, root, pause=wanted["pause"])
    _enable(bench, root)
    task.note = "unpacking container images"
    _unpack(bench, root, archives)
    task.note = "writing the image"
    config = {
        "Env": ["container=docker", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
        "StopSignal": "SIGRTMIN+3",  # systemd's word for "power off"
        "Labels": {"holdback.key": key},
    }
    write_archive(target, name, root, config, owned=lambda member: member)


def _install(bench: NodeBench, root: Path, version: str) -> None:
    files = bench.kind / "images/base/files"
    install(files / "etc", root / "etc", mode=0o644)
    for folder in ("usr/local/bin", "kind/bin"):
        install(files / folder, root / folder, mode=0o755)
    for folder, names in _OF_NODE.items():
        for each in names:
            install(bench.executables[each], root / folder / each, mode=0o755)
    for plugin in _PLUGINS:
        install(root / "usr/lib/cni" / plugin, root / "opt/cni/bin" / plugin)
    shutil.rmtree(root / "usr/lib/cni")
    install(FILES / "pods.conflist", root / "etc/cni/net.d/pods.conflist")
    for manifest in ("default-cni.yaml", "default-storage.yaml"):
        install(FILES / manifest, root / "kind/manifests" / manifest)
    (root / "kind/version").write_text(version)
    (root / "etc/kubernetes/manifests").mkdir(parents=True)


def _configure(bench: NodeBench, root: Path, *, pause: str) -> None:
    containerd = root / "etc/containerd/config.toml"
    text = re.sub(r"(sandbox_image = ).*", rf'\1"{pause}"', containerd.read_text())
    # On a machine that may not give CAP_SYS_RESOURCE, nothing can be made less likely to be killed for want of memory.
    containerd.write_text(text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true"))
    with (root / "etc/default/kubelet").open("a") as file:
        file.write(" --fail-cgroupv1=false\n")  # else 1.35 does not start on cgroup v1
    specification = json.loads(bench.command(bench.executables["ctr"], "oci", "spec"))
    specification["process"].pop("rlimits", None)
    hooks = specification.setdefault("hooks", {}).setdefault("createContainer", [])
    hooks.append({"path": "/kind/bin/mount-product-files.sh"})
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(specification))
    with (root / "etc/systemd/journald.conf").open("a") as file:
        file.write("ReadKMsg=no\n")


def _enable(bench: NodeBench, root: Path) -> None:
    for pattern in _UNWANTED_UNITS:
        for unit in root.glob(pattern):
            unit.unlink()
    bench.command("chroot", root, "systemctl", "enable", "kubelet", "containerd", "undo-mount-hacks")
    # What this one registers would count for the whole machine.
    bench.command("chroot", root, "systemctl", "mask", "systemd-binfmt")


def _unpack(bench: NodeBench, root: Path, archives: Sequence[Path]) -> None:
    """Into the node's own containerd store, by a containerd that runs here for so long."""
    with _containerd(bench, root / "var/lib/containerd") as socket:
        ctr: list[str | Path] = [bench.executables["ctr"], f"--address={socket}", "--namespace=k8s.io"]
        for archive in archives:
            bench.command(
                *ctr, "images", "import", "--local", "--discard-unpacked-layers", f"--label={_LABEL}", archive
            )
            archive.unlink()
        bench.command(*ctr, "content", "prune", "references")  # else each layer is there twice
    shutil.rmtree(root / "var/lib/containerd/tmpmounts", ignore_errors=True)


@contextmanager
def _containerd(bench: NodeBench, store: Path) -> Iterator[Path]:
    """A containerd with this store; its socket. Its mounts are its own, so none is left behind."""
    home = bench.run.folder("containerd")
    socket, configuration = home / "socket", home / "config.toml"
    configuration.write_text(
        f"""
version = 2
root = "{store}"
state = "{home / "state"}"
disabled_plugins = [
  "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt",
]
[grpc]
address = "{socket}"
"""
    )
    argv: list[str | Path] = ["unshare", "--mount", bench.executables["containerd"], "--config", configuration]
    asked: list[str | Path] = [bench.executables["ctr"], f"--address={socket}", "version"]
    with child(bench.run, "containerd", argv) as process:

        def ready() -> bool:
            return bench.workshop.commands.run(asked, cwd=home).code == 0

        await_ready(process, ready, within=30.0, what="ctr version", every=0.2)
        yield socket
