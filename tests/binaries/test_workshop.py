"""Building with a real Go."""

from __future__ import annotations

import io
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest

from holdback.binaries.commands import Stopped
from holdback.binaries.progress import Progress, Task
from holdback.binaries.workshop import Workshop
from holdback.clock import FakeClock, poll
from holdback.errors import BuildError
from tests.binaries.conftest import MAIN, Tiny


def build(workshop: Workshop, tiny: Tiny, key: str = "key") -> Path:
    def fill(entry: Path, scratch: Path, task: Task) -> None:
        workshop.compile(tiny.source, entry / "tiny", scratch, task)

    return workshop.make("tiny", key, fill) / "tiny"


def test_an_executable_is_built_and_stamped(workshop: Workshop, tiny: Tiny) -> None:
    """What was built runs and carries the stamp that the linker set."""
    assert subprocess.check_output([build(workshop, tiny)], text=True) == "hello\n"


def test_an_executable_needs_nothing_of_its_machine(
    workshop: Workshop, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is static, whatever the user's environment says, and so serves containers and other machines as well."""
    monkeypatch.setenv("CGO_ENABLED", "1")
    told = subprocess.check_output([workshop.toolchain.go, "version", "-m", build(workshop, tiny)], text=True)
    assert "CGO_ENABLED=0" in told


def test_a_workspace_around_the_source_changes_nothing(workshop: Workshop, tiny: Tiny) -> None:
    """A broken go.work in a folder above the source is not even read."""
    (tiny.directory.parent / "go.work").write_text("broken", encoding="utf-8")
    assert build(workshop, tiny).exists()


def test_the_compilers_words_reach_the_user(workshop: Workshop, tiny: Tiny) -> None:
    """A source that does not compile: file, line and reason in the message, another way in the remedy."""
    tiny.rewrite(MAIN.replace("fmt.Println", "fmt.Printing"))
    with pytest.raises(BuildError, match=r"(?s)tiny does not compile.*main\.go:7.*fmt\.Printing") as caught:
        build(workshop, tiny)
    assert "use another one" in caught.value.remedy
    assert workshop.cache.find("tiny", "key") is None


def test_a_refused_module_is_named(workshop: Workshop, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that no proxy gives: module, version, and what else can be done."""
    tiny.rewrite('package main\n\nimport _ "example.invalid/absent/thing"\n\nfunc main() {}\n')
    with (tiny.directory / "go.mod").open("a", encoding="utf-8") as file:
        file.write("\nrequire example.invalid/absent v1.2.3\n")
    sums = "".join(f"example.invalid/absent v1.2.3{part} h1:{'A' * 43}=\n" for part in ("", "/go.mod"))
    (tiny.directory / "go.sum").write_text(sums, encoding="utf-8")
    monkeypatch.setenv("GOPROXY", "off")
    with pytest.raises(BuildError, match=r"does not give example\.invalid/absent v1\.2\.3") as caught:
        build(workshop, tiny)
    assert "use another one" in caught.value.remedy
    assert "GOPROXY" in caught.value.remedy


def test_one_failure_ends_the_other_builds(workshop: Workshop, tmp_path: Path) -> None:
    """The first failure is raised at once; a command that runs beside it is killed, and later work runs again."""
    started, ended = threading.Event(), []

    def long() -> None:
        try:
            started.set()
            workshop.commands.run(["sleep", "300"], cwd=tmp_path)
        except Stopped:
            ended.append("stopped")

    def failing() -> None:
        assert started.wait(30)
        raise BuildError("no")

    with pytest.raises(BuildError):
        workshop.in_parallel([long, failing])
    assert ended == ["stopped"]
    assert workshop.commands.run(["true"], cwd=tmp_path).code == 0


def test_an_entry_is_made_once(workshop: Workshop, tiny: Tiny) -> None:
    """What is in the cache is taken as it is, even if the source is broken by now."""
    first = build(workshop, tiny)
    tiny.rewrite("broken")
    assert build(workshop, tiny) == first
    with pytest.raises(BuildError):
        build(workshop, tiny, key="another")


def test_progress_is_seen_without_a_terminal(said: io.StringIO) -> None:
    """A plain line for each piece of work, again and again, with its note and its time."""
    with Progress(said, every=0.01, clock=FakeClock()).task("thing") as task:
        task.note = "7 packages compiled"
        assert poll(lambda: said.getvalue().count("thing: 7 packages compiled, 0 s") > 1, within=30)


def test_jobs_run_side_by_side(workshop: Workshop) -> None:
    """Two jobs that wait for each other both end."""
    meeting = threading.Barrier(2)
    workshop.in_parallel([partial(_meet, meeting), partial(_meet, meeting)])


def _meet(meeting: threading.Barrier) -> None:
    meeting.wait(30)
