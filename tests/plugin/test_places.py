"""What options say of where trials run reaches the session, and what cannot be is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

import holdback.plugin  # noqa: F401  pytester forgets what an inner session imported
from holdback.plugin.places import Places

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sessions

EXPERIMENT = """
import holdback

def test_it(holdback_settings):
    print("places:", holdback_settings.places)
"""


def run(pytester: pytest.Pytester, *words: str, ini: str = "") -> pytest.RunResult:
    pytester.makepyfile(test_a=EXPERIMENT)
    if ini:
        pytester.makeini(f"[pytest]\n{ini}")
    return pytester.runpytest_inprocess("-s", "-p", "no:cacheprovider", *words)


def test_local_clusters_are_the_default(pytester: pytest.Pytester) -> None:
    """Without any option clusters are local, and no context is known."""
    run(pytester).stdout.fnmatch_lines([f"*places: {Places()}*"])


def test_contexts_by_options(pytester: pytest.Pytester) -> None:
    """Roles keep the order of their options, and the header says what kind of clusters these are."""
    managers = ["--manager-context=b", "--manager-context=a"]
    allowed = [f"--allow-context={name}" for name in "abc"]
    result = run(
        pytester, "--clusters=existing", *managers, "--worker-context=c", *allowed, "--router-address=10.0.0.1"
    )
    expected = Places("existing", managers=("b", "a"), workers=("c",), allowed=("a", "b", "c"), address="10.0.0.1")
    result.stdout.fnmatch_lines(["holdback: *, existing clusters, *", f"*places: {expected}*"])


def test_contexts_by_ini(pytester: pytest.Pytester) -> None:
    """A repository can keep them; an option replaces those of its role, and allows more."""
    ini = "holdback_clusters = existing\nholdback_manager_contexts =\n  a\n  b\nholdback_allowed_contexts =\n  a\n  b\n"
    result = run(pytester, "--manager-context=c", "--allow-context=c", ini=ini)
    expected = Places("existing", managers=("c",), allowed=("c", "a", "b"))
    result.stdout.fnmatch_lines([f"*places: {expected}*"])


def test_they_reach_the_processes_of_xdist(pytester: pytest.Pytester) -> None:
    """A worker knows what the controller was told."""
    words = ["--clusters=existing", "--manager-context=a", "--allow-context=a", "-n1"]
    pytester.makepyfile(test_a="def test_it(holdback_settings): assert holdback_settings.places.managers == ('a',)")
    pytester.runpytest_inprocess("-p", "no:cacheprovider", *words).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--clusters=there"], "--clusters=there is unknown*known: local,*"),
        (["--controllers=there"], "--controllers=there is unknown*"),
        (["--clusters=existing"], "no context of an existing cluster was named*"),
        (["--clusters=existing", "--manager-context=a"], "not allowed to touch: a*--allow-context=a*"),
        (["--manager-context=a"], "contexts are named, but the clusters are local*--clusters=existing*"),
        (
            ["--clusters=existing", "--manager-context=a", "--allow-context=a", "-n2"],
            "-n 2 with --clusters=existing*leave out -n*",
        ),
    ],
)
def test_what_cannot_be(pytester: pytest.Pytester, words: list[str], complaint: str) -> None:
    """It is a usage error with a remedy, and nothing was collected."""
    result = run(pytester, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told: Any = " ".join(result.stderr.lines)
    result.stderr.fnmatch_lines([f"*{complaint.split('*', maxsplit=1)[0]}*"])
    for part in complaint.split("*"):
        assert part in told
