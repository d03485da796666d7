"""Container images made without an engine or a registry: a Docker archive with a single layer.

The format is that of `docker save`: a `manifest.json` that names a configuration and the layers, each of them a tar.
`docker load` and `ctr images import` read it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

from holdback.binaries.pins import host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["as_root", "write_archive"]

_EPOCH = "1970-01-01T00:00:00Z"


def as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same file, owned by root and without a date: the same content gives the same image."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def write_archive(
    target: Path,
    name: str,
    root: Path,
    config: Mapping[str, Any],
    *,
    owned: Callable[[tarfile.TarInfo], tarfile.TarInfo] = as_root,
) -> None:
    """Write the image `name` with the files below `root` to `target`.

    Args:
        target: the archive; the layer lies beside it meanwhile.
        name: with its tag.
        root: its root file system.
        config: what the image format calls `config`: Entrypoint, Env, Labels and so on.
        owned: may change each file's entry.
    """
    layer = target.with_suffix(".layer")
    with tarfile.open(layer, "w") as files:
        files.add(root, arcname=".", filter=owned)
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    described = json.dumps(_description(config, digest)).encode()
    description = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = [{"Config": description, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        archive.add(layer, arcname="layer.tar", filter=as_root)
        for member, data in ((description, described), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    layer.unlink()


def _description(config: Mapping[str, Any], digest: str) -> dict[str, Any]:
    system, _, architecture = host().partition("/")
    return {
        "architecture": architecture,
        "os": system,
        "created": _EPOCH,
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": _EPOCH, "created_by": "holdback nodeimage"}],
    }
