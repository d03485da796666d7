"""From a variant to an executable and the manifests it is installed with."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries.pins import host, pin
from holdback.binaries.workshop import Source
from holdback.controllers.kueue import checkout
from holdback.controllers.kueue.ready import check_ready
from holdback.controllers.kueue.variant import DEFAULT_VERSION, PIN, Checkout, Ready, Release, Variant, digest
from holdback.errors import BuildError, ConfigurationError

if TYPE_CHECKING:
    from holdback.binaries import Binaries
    from holdback.binaries.progress import Task
    from holdback.binaries.workshop import Workshop
    from holdback.controllers.kueue.variant import Patch

__all__ = ["KueueBuild", "build_kueue", "find_kueue"]

_MODULE = "sigs.k8s.io/kueue"
_BINARY = "kueue"
_MANIFESTS = "manifests.yaml"
_ALTERNATIVES = (
    "give another version (v0.17.0), a folder with a checkout (../kueue), or a ready executable (path/to/kueue) "
    "as --control or --treatment"
)


@dataclass(frozen=True, slots=True)
class KueueBuild:
    """What an arm starts and installs."""

    variant: Variant
    binary: Path
    manifests: Path
    """`config/default` of the source, rendered: one YAML file of many documents."""


def find_kueue(variant: Variant, binaries: Binaries) -> KueueBuild | None:
    """The variant's build, None when it has to be made.

    Raises:
        ToolchainError: there is no usable Go, whose version is a part of what is looked for.
        ConfigurationError: a ready executable is no Kueue.
    """
    if isinstance(variant.source, Ready):
        check_ready(variant.source.path, variant.name, binaries)
    entry = binaries.workshop.cache.find(*_entry(variant, binaries.workshop))
    return None if entry is None else _result(variant, entry)


def build_kueue(variant: Variant, binaries: Binaries) -> KueueBuild:
    """The variant's build, made now if need be.

    Raises:
        ConfigurationError: a patch does not apply, or a ready executable is no Kueue.
        BinaryError: the source cannot be had or does not compile; the message names the arm.
    """
    found = find_kueue(variant, binaries)
    if found is not None:
        return found
    kustomize = binaries.get("kustomize")["kustomize"]
    making = _Making(variant, binaries.workshop, kustomize)
    name, key = _entry(variant, binaries.workshop)
    return _result(variant, binaries.workshop.make(name, key, making.fill, title=making.title))


def _entry(variant: Variant, workshop: Workshop) -> tuple[str, str]:
    """Name and key in the cache.

    The Go version counts here, other than for the pins: two arms must not differ in what compiled them.
    """
    rendered_by = pin("kustomize").key
    match variant.source:
        case Ready(manifests=version):
            return "kueue-manifests", digest(version, rendered_by)
        case _:
            return "kueue", digest(variant.code, rendered_by, workshop.toolchain.version, host())


def _result(variant: Variant, entry: Path) -> KueueBuild:
    binary = variant.source.path if isinstance(variant.source, Ready) else entry / _BINARY
    return KueueBuild(variant, binary, entry / _MANIFESTS)


@dataclass(frozen=True, slots=True)
class _Making:
    """One cache entry in the making."""

    variant: Variant
    workshop: Workshop
    kustomize: Path

    @property
    def title(self) -> str:
        return f"{self.variant.name}: {self.variant.describe()}"

    def fill(self, entry: Path, scratch: Path, task: Task) -> None:
        code = self.variant.code
        task.note = "preparing the source"
        source = self._source(scratch)
        for patch in self.variant.patches:
            self._apply(patch, source)
        if not isinstance(self.variant.source, Ready):
            self._compile(source, entry, scratch, task)
        task.note = "rendering manifests"
        self._render(source, entry / _MANIFESTS)
        if self.variant.code != code:
            raise BuildError(f"{self.title}: the source changed while it was built", remedy="build again")

    def _source(self, scratch: Path) -> Path:
        """A folder with the source: a copy that may be changed, or the checkout itself when nothing changes it."""
        match self.variant.source:
            case Checkout(path) if not self.variant.patches:
                return path
            case Checkout(path):
                if checkout.outside(path):
                    raise ConfigurationError(
                        f"{self.title}: its go.mod takes {checkout.outside(path)[0]} from beside it, so a copy of it "
                        "cannot be patched",
                        remedy="apply the patch in the checkout, and leave it out of the variant",
                    )
                checkout.copy(path, scratch / "source")
            case Release(version) | Ready(manifests=version):
                _copy_writable(self._module(version, scratch), scratch / "source")
        return scratch / "source"

    def _module(self, version: str, scratch: Path) -> Path:
        """The module's folder in Go's module cache; the default version is verified against our own go.sum."""
        cwd = PIN if version == DEFAULT_VERSION else scratch
        return self.workshop.module(
            _MODULE, version, cwd=cwd, scratch=scratch, title=self.title, alternatives=_ALTERNATIVES
        )

    def _apply(self, patch: Patch, source: Path) -> None:
        env = {
            # Inside some repository `git apply` would skip, in silence, every path that is not in it.
            "GIT_CEILING_DIRECTORIES": str(source.resolve().parent),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        apply = partial(self.workshop.commands.run, cwd=source, env=env)
        file = source.parent / "patch"
        file.write_text(patch.text, encoding="utf-8")
        applied = apply(["git", "apply", "--verbose", "--whitespace=nowarn", file])
        undo = apply(["git", "apply", "--reverse", "--check", file])
        if applied.code != 0 or undo.code != 0:
            words = "\n".join(f"    {line}" for line in (*applied.lines, *undo.lines)[:20])
            raise ConfigurationError(
                f"{self.variant.name}: the patch {patch.path} does not apply to Kueue {self.variant.source}:\n{words}",
                remedy="make the patch again from this source (git diff -U1), or name the source it was made for",
            )

    def _compile(self, source: Path, entry: Path, scratch: Path, task: Task) -> None:
        match self.variant.source:
            case Release(version) if not self.variant.patches:
                stamp = version
            case Release(version):
                stamp = f"{version}+patched.{self.variant.code}"
            case _:
                stamp = f"v0.0.0+checkout.{self.variant.code}"
        go = Source(self.title, source, "./cmd/kueue", {f"{_MODULE}/pkg/version.GitVersion": stamp}, _ALTERNATIVES)
        self.workshop.compile(go, entry / _BINARY, scratch, task)

    def _render(self, source: Path, output: Path) -> None:
        result = self.workshop.commands.run([self.kustomize, "build", "config/default"], cwd=source)
        if result.code != 0 or not result.output:
            words = "\n".join(f"    {line}" for line in result.lines[-10:])
            raise BuildError(
                f"{self.title}: its manifests (config/default) cannot be rendered:\n{words}", remedy=_ALTERNATIVES
            )
        output.write_text(result.output, encoding="utf-8")


def _copy_writable(module: Path, target: Path) -> None:
    """Go's module cache is read-only, and a copy of it would be as well: patches could not change it."""
    shutil.copytree(module, target, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)
