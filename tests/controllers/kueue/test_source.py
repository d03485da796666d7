"""From a variant to an executable, with a real Go on a small source tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdback.binaries import Binaries
from holdback.controllers.kueue.checkout import content_hash
from holdback.controllers.kueue.source import build_kueue, find_kueue
from holdback.controllers.kueue.variant import Checkout, Patch, Release, Variant
from holdback.errors import BuildError, ConfigurationError
from tests.controllers.kueue.conftest import PATCH


def variant(checkout: Path, *patches: str) -> Variant:
    return Variant("treatment", Checkout(checkout), tuple(Patch(Path("guard.patch"), text) for text in patches))


def output(path: Path) -> str:
    return subprocess.check_output([path], text=True)


def test_a_checkout_is_built_and_not_written_to(checkout: Path, kueue_binaries: Binaries) -> None:
    """Executable, stamp and manifests are there, and the checkout is as it was."""
    before = content_hash(checkout)
    arm = variant(checkout)
    build = build_kueue(arm, kueue_binaries)
    assert output(build.binary) == f"plain v0.0.0+checkout.{arm.code}\n"
    assert build.manifests.read_text(encoding="utf-8") == "kind: Kustomization\n"
    assert content_hash(checkout) == before
    assert find_kueue(arm, kueue_binaries) == build


def test_an_edited_checkout_is_built_again(checkout: Path, kueue_binaries: Binaries) -> None:
    """Nobody measures yesterday's code."""
    build_kueue(variant(checkout), kueue_binaries)
    main = checkout / "cmd/kueue/main.go"
    main.write_text(main.read_text(encoding="utf-8").replace("plain", "edited"), encoding="utf-8")
    assert find_kueue(variant(checkout), kueue_binaries) is None
    assert output(build_kueue(variant(checkout), kueue_binaries).binary).startswith("edited ")


def test_a_patch_changes_a_copy(checkout: Path, kueue_binaries: Binaries) -> None:
    """The patched executable does what the patch says; the checkout stays unpatched, inside a repository as well."""
    subprocess.run(["git", "-C", checkout.parent, "init", "-q"], check=True)
    before = content_hash(checkout)
    patched = build_kueue(variant(checkout, PATCH), kueue_binaries)
    assert output(patched.binary).endswith("\npatched\n")
    assert content_hash(checkout) == before


def test_a_patch_that_does_not_apply_is_refused(checkout: Path, kueue_binaries: Binaries) -> None:
    """Arm, patch, file and the place in it are in the message."""
    wrong = PATCH.replace('fmt.Println("plain"', 'fmt.Println("something else"')
    with pytest.raises(
        ConfigurationError, match=r"(?s)treatment: .*guard\.patch does not apply.*main\.go:10"
    ) as caught:
        build_kueue(variant(checkout, wrong), kueue_binaries)
    assert caught.value.remedy
    assert find_kueue(variant(checkout, wrong), kueue_binaries) is None


def test_a_treatment_that_does_not_compile(checkout: Path, kueue_binaries: Binaries) -> None:
    """The arm and the compiler's words are in the message."""
    wrong = PATCH.replace('fmt.Println("patched")', "fmt.Nothing()")
    with pytest.raises(BuildError, match=r"(?s)treatment: Kueue checkout .*does not compile.*undefined: fmt\.Nothing"):
        build_kueue(variant(checkout, wrong), kueue_binaries)


def test_manifests_that_cannot_be_rendered(checkout: Path, kueue_binaries: Binaries) -> None:
    """A source without config/default is refused in so many words."""
    (checkout / "config/default/kustomization.yaml").unlink()
    with pytest.raises(BuildError, match=r"(?s)config/default\) cannot be rendered.*No such file"):
        build_kueue(variant(checkout), kueue_binaries)


def test_a_version_that_the_proxy_does_not_give(kueue_binaries: Binaries, monkeypatch: pytest.MonkeyPatch) -> None:
    """Module, version and the alternatives are in the error."""
    monkeypatch.setenv("GOPROXY", "off")
    with pytest.raises(BuildError, match=r"control: .*does not give sigs\.k8s\.io/kueue v9\.9\.9") as caught:
        build_kueue(Variant("control", Release("v9.9.9")), kueue_binaries)
    for alternative in ("another version", "checkout", "ready executable", "GOPROXY"):
        assert alternative in caught.value.remedy


def test_a_copy_would_lose_modules_from_beside(checkout: Path, kueue_binaries: Binaries) -> None:
    """A patched checkout whose go.mod takes a module from beside it is refused rather than built from other code."""
    (checkout.parent / "beside").mkdir()
    with (checkout / "go.mod").open("a", encoding="utf-8") as file:
        file.write("\nreplace a.b/c => ../beside\n")
    with pytest.raises(ConfigurationError, match="from beside it"):
        build_kueue(variant(checkout, PATCH), kueue_binaries)
