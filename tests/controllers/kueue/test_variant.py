"""What a word on the command line or a TOML file means, and every way of getting it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdback.controllers.kueue.variant import DEFAULT_VERSION, Checkout, Ready, Release, read_variant
from holdback.errors import ConfigurationError
from tests.controllers.kueue.conftest import PATCH


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def ready(path: Path) -> Path:
    path.touch(0o755)
    return path


def test_a_version() -> None:
    """A version is that release, unpatched."""
    variant = read_variant("v0.17.3", "control")
    assert (variant.name, variant.source, variant.patches) == ("control", Release("v0.17.3"), ())
    assert variant.describe() == "Kueue v0.17.3"


def test_a_folder(checkout: Path) -> None:
    """A folder with cmd/kueue is a checkout."""
    assert read_variant(str(checkout), "treatment").source == Checkout(checkout)


def test_an_executable(tmp_path: Path) -> None:
    """An executable file runs as it is, with the manifests of the default version."""
    path = ready(tmp_path / "manager")
    assert read_variant(str(path), "treatment").source == Ready(path, DEFAULT_VERSION)


def test_a_toml_file(tmp_path: Path) -> None:
    """All keys are read, and paths are relative to the file, not to the working folder."""
    (tmp_path / "guard.patch").write_text(PATCH, encoding="utf-8")
    word = write(
        tmp_path / "treatment.toml",
        'version = "v0.17.0"\npatches = ["guard.patch"]\n[feature_gates]\nB = true\nA = false\n'
        '[configuration]\nmultiKueue.origin = "x"\n',
    )
    variant = read_variant(word, "treatment")
    assert variant.source == Release("v0.17.0")
    assert [patch.text for patch in variant.patches] == [PATCH]
    assert variant.feature_gates == {"A": False, "B": True}
    assert variant.configuration == {"multiKueue": {"origin": "x"}}
    assert variant.describe() == (
        'Kueue v0.17.0 + guard.patch, gates A=false,B=true, configuration {"multiKueue": {"origin": "x"}}'
    )


def test_a_toml_file_with_a_checkout_or_a_binary(tmp_path: Path, checkout: Path) -> None:
    """Their paths are relative to the file as well."""
    path = ready(tmp_path / "manager")
    assert read_variant(write(tmp_path / "a.toml", 'checkout = "checkout"'), "a").source == Checkout(checkout)
    text = 'binary = "manager"\nmanifests = "v0.16.0"'
    assert read_variant(write(tmp_path / "b.toml", text), "b").source == Ready(path, "v0.16.0")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("version = ", "is no TOML"),
        ("", "exactly one of version, checkout, binary, and has none"),
        ('version = "v0.17.0"\ncheckout = "."', "and has version and checkout"),
        ('version = "0.17"', "'0.17', which is no version"),
        ("version = 17", "version must be a text"),
        ('version = "v0.17.0"\npatch = ["x"]', "unknown key patch"),
        ('version = "v0.17.0"\npatches = "x"', "patches must be a list"),
        ('version = "v0.17.0"\npatches = ["absent.patch"]', "absent.patch cannot be read"),
        ('version = "v0.17.0"\nmanifests = "v0.17.0"', "manifests goes with binary only"),
        ('version = "v0.17.0"\nfeature_gates = true', "feature_gates must be a table"),
        ('version = "v0.17.0"\n[feature_gates]\nA = "true"', "feature gate A is 'true'"),
        ('version = "v0.17.0"\nconfiguration = 1', "configuration must be a table"),
        ('checkout = "empty"', "is no checkout of Kueue"),
        ('checkout = "absent"', "is no checkout of Kueue"),
        ('binary = "absent"', "there is no file"),
        ('binary = "plain"', "is not executable"),
        ('binary = "manager"\npatches = ["a.patch"]', "a binary cannot be patched"),
        ('binary = "manager"\nmanifests = "latest"', "'latest', which is no version"),
    ],
)
def test_a_wrong_toml_file(tmp_path: Path, text: str, cause: str) -> None:
    """The message names the arm, the cause and what to do."""
    ready(tmp_path / "manager")
    (tmp_path / "plain").touch(0o644)
    (tmp_path / "a.patch").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match=cause) as caught:
        read_variant(write(tmp_path / "v.toml", text), "treatment")
    assert caught.value.message.startswith("treatment: ")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("word", "cause", "remedy"),
    [
        ("0.17.3", "is no version", "did you mean v0.17.3?"),
        ("latest", "is no version", "give a version"),
        ("v0.17", "is no version", "give a version"),
        ("absent.toml", "cannot be read", "give a version"),
        (".", "is no checkout of Kueue", "give a version"),
        ("plain", "is not executable", "chmod"),
    ],
)
def test_a_wrong_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, cause: str, remedy: str) -> None:
    """A word that means nothing is refused with what is accepted."""
    (tmp_path / "plain").touch(0o644)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=cause) as caught:
        read_variant(word, "control")
    assert remedy in caught.value.remedy


def test_the_fingerprint_tells_what_runs_apart(tmp_path: Path) -> None:
    """Another patch text, gate or configuration is another fingerprint; the arm's name and the file's place are not."""
    texts = [
        'version = "v0.17.0"',
        'version = "v0.17.1"',
        'version = "v0.17.0"\npatches = ["a.patch"]',
        'version = "v0.17.0"\npatches = ["b.patch"]',
        'version = "v0.17.0"\n[feature_gates]\nA = true',
        'version = "v0.17.0"\n[configuration]\nA = true',
    ]
    prints = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        (folder / "a.patch").write_text("a", encoding="utf-8")
        (folder / "b.patch").write_text("b", encoding="utf-8")
        words = [write(folder / f"{number}.toml", text) for number, text in enumerate(texts)]
        prints.append([read_variant(word, folder.name).fingerprint for word in words])
    assert prints[0] == prints[1]
    assert len(set(prints[0])) == len(texts)


def test_gates_and_configuration_do_not_change_the_code(tmp_path: Path) -> None:
    """Two arms of one code with different gates share one build."""
    plain = read_variant("v0.17.0", "control")
    gated = read_variant(write(tmp_path / "g.toml", 'version = "v0.17.0"\n[feature_gates]\nA = true'), "treatment")
    assert plain.code == gated.code
    assert plain.fingerprint != gated.fingerprint


def test_the_shipped_arms_can_be_read() -> None:
    """clusters/kueue has a control and a treatment that differ by our patch alone, and it only adds lines."""
    folder = Path(__file__).parents[3] / "clusters" / "kueue"
    control, treatment = (read_variant(str(folder / f"{arm}.toml"), arm) for arm in ("control", "treatment"))
    assert control.source == treatment.source == Release(DEFAULT_VERSION)
    assert not control.patches
    (patch,) = treatment.patches
    changed = [
        line for line in patch.text.splitlines() if line.startswith(("+", "-")) and line[:3] not in {"+++", "---"}
    ]
    assert changed
    assert all(line.startswith("+") for line in changed)
