"""Which API servers the experiments were made for."""

from __future__ import annotations

import re

from holdback.binaries.pins import pin

__all__ = ["doubts"]


def doubts(version: str) -> str:
    """What speaks against an API server of that version, in words; empty if its minor version is the pinned one."""
    wanted, has = (re.search(r"v(\d+\.\d+)", each) for each in (pin("kube-apiserver").version, version))
    if wanted is None or has is None or has[1] == wanted[1]:
        return ""
    return f"the experiments were made for {wanted[1]}; MultiKueue of Kueue v0.17 fails on 1.36 (Kueue #11649)"
