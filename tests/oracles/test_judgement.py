"""Asking oracles."""

from __future__ import annotations

import pytest

from holdback.errors import ConfigurationError, Undecidable
from holdback.history.history import History
from holdback.oracles import Finding, Judgement, judge

EMPTY = History(())


def holds(history: History) -> Finding:
    return Finding("holds", Judgement.HOLDS, "fine")


def crashes(history: History) -> Finding:
    raise KeyError("metadata")


def cannot(history: History) -> Finding:
    raise Undecidable("no eviction in this history", remedy="record one")


def test_every_oracle_is_asked_whatever_became_of_the_others() -> None:
    """A crashed oracle is UNKNOWN with the exception's words; the others' findings stand."""
    findings = judge(EMPTY, [crashes, holds, cannot])
    assert [finding.judgement for finding in findings] == [Judgement.UNKNOWN, Judgement.HOLDS, Judgement.UNKNOWN]
    assert findings[0] == Finding("crashes", Judgement.UNKNOWN, "KeyError: 'metadata'")
    assert "no eviction in this history" in findings[2].reason


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "None, which is no Finding"),
        (True, "True, which is no Finding"),
        (Judgement.HOLDS, "<Judgement.HOLDS: 'holds'>, which is no Finding"),
        (Finding("odd", "violated", "a text"), "a Finding whose judgement is 'violated'"),  # type: ignore[arg-type]
        (Finding("odd", Judgement.HOLDS, None), "a Finding whose reason is None"),  # type: ignore[arg-type]
        (Finding("odd", Judgement.HOLDS, "", [1]), "a Finding whose events is [1]"),  # type: ignore[arg-type]
        (Finding("odd", Judgement.HOLDS, "", (-1,)), "a Finding whose events is (-1,)"),
        (Finding(None, Judgement.HOLDS, ""), "a Finding whose oracle is None"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_finding_is_unknown(answer: object, words: str) -> None:
    """An oracle that returns nothing, or a finding of wrong types, is UNKNOWN by its name, and never HOLDS."""

    def odd(history: History) -> object:
        return answer

    (finding,) = judge(EMPTY, [odd])  # type: ignore[list-item]
    assert finding == Finding("odd", Judgement.UNKNOWN, f"the oracle odd returned {words}")


def test_no_oracle_is_an_error() -> None:
    """Without oracles nothing could be violated, which must not read as HOLDS."""
    with pytest.raises(ConfigurationError):
        judge(EMPTY, [])
