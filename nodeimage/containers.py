"""The container images that a control plane consists of, under the names by which kubeadm asks for them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from holdback.binaries.pins import host
from nodeimage.archive import write_archive
from nodeimage.debian import with_libraries

if TYPE_CHECKING:
    from pathlib import Path

    from nodeimage.workbench import NodeBench

__all__ = ["names", "write_all"]

_PATH = {"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
_MACHINE = {"linux/amd64": "x86_64-linux-gnu", "linux/arm64": "aarch64-linux-gnu"}
_COMMANDS = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")


def names(bench: NodeBench, version: str) -> dict[str, str]:
    """The images that kubeadm of this Kubernetes wants, by what they are: `etcd`, `pause`, ..."""
    listed = bench.command(bench.executables["kubeadm"], "config", "images", "list", f"--kubernetes-version={version}")
    return {name.rpartition("/")[2].partition(":")[0]: name for name in listed.split()}


def write_all(bench: NodeBench, debian: Path, wanted: dict[str, str], folder: Path) -> list[Path]:
    """Write an archive for each of these images to `folder`; the archives."""
    archives = []
    for what, name in wanted.items():
        root = bench.scratch / "containers" / what
        config = _fill(bench, debian, what, root)
        archives.append(folder / f"{what}.tar")
        write_archive(archives[-1], name, root, config)
        shutil.rmtree(root)
    return archives


def _fill(bench: NodeBench, debian: Path, what: str, root: Path) -> dict[str, Any]:
    """Put everything into the image's root; its configuration."""
    if what == "pause":
        _place(bench, what, root / "pause")
        return {"Entrypoint": ["/pause"], "User": "65535:65535"}
    if what == "coredns":
        _place(bench, what, root / "coredns")
        return {"Entrypoint": ["/coredns"], "WorkingDir": "/"}
    _place(bench, what, root / "usr/local/bin" / what)
    (root / "tmp").mkdir(mode=0o1777)
    if what == "kube-proxy":
        _add_iptables(bench, debian, root)
    return _PATH


def _place(bench: NodeBench, executable: str, target: Path) -> None:
    target.parent.mkdir(parents=True)
    shutil.copy(bench.executables[executable], target)


def _add_iptables(bench: NodeBench, debian: Path, root: Path) -> None:
    """kube-proxy calls iptables and conntrack, and iptables loads its matches from files of their own."""
    library = f"usr/lib/{_MACHINE[host()]}"
    plugins = [f"{library}/xtables/{path.name}" for path in sorted((debian / library / "xtables").glob("*.so"))]
    programs = ["usr/sbin/xtables-nft-multi", "usr/sbin/xtables-legacy-multi", "usr/sbin/nft", "usr/sbin/conntrack"]
    for link, folder in {"sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(folder)
    with_libraries(bench, debian, [*programs, *plugins], root)
    for command in _COMMANDS:
        (root / "usr/sbin" / command).symlink_to("xtables-nft-multi")
    (root / "run").mkdir()
