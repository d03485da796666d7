"""What an oracle is and says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdback.errors import ConfigurationError
from holdback.history.history import History

__all__ = ["Finding", "Judgement", "Oracle", "judge", "name_of"]


class Judgement(StrEnum):
    """What an oracle says of a history.

    On a closed history the words are plain: the property holds, is violated, or cannot be decided. On an open
    one (the trial goes on) they also steer the waiting: UNKNOWN says "not decided yet, wait for me", HOLDS says
    "nothing more to wait for", and VIOLATED is final: no later event may take it back.
    """

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One oracle's judgement, its reason in words, and the indices of the events that show it."""

    oracle: str
    judgement: Judgement
    reason: str
    events: tuple[int, ...] = ()


Oracle = Callable[[History], Finding]
"""A pure function; its `__name__` is the oracle's name."""


def name_of(oracle: Oracle) -> str:
    """The oracle's name, for findings that it could not make itself."""
    return str(getattr(oracle, "__name__", type(oracle).__name__))


def judge(history: History, oracles: Sequence[Oracle]) -> tuple[Finding, ...]:
    """What each oracle says; one that crashes, says that it cannot decide, or gives no finding is UNKNOWN.

    Raises:
        ConfigurationError: there is no oracle, so nothing could ever be violated.
    """
    if not oracles:
        raise ConfigurationError(
            "an experiment without oracles decides nothing",
            remedy="name at least one: @holdback.experiment(oracles=[...])",
        )
    return tuple(_ask(oracle, history) for oracle in oracles)


def _ask(oracle: Oracle, history: History) -> Finding:
    try:
        answer: object = oracle(history)
    except Exception as error:  # noqa: BLE001  a crashed oracle must never look like a property that holds
        return Finding(name_of(oracle), Judgement.UNKNOWN, f"{type(error).__name__}: {error}")
    if isinstance(answer, Finding) and not (wrong := _wrong_types(answer)):
        return answer
    said = f"a Finding whose {wrong}" if isinstance(answer, Finding) else f"{answer!r:.100}, which is no Finding"
    return Finding(name_of(oracle), Judgement.UNKNOWN, f"the oracle {name_of(oracle)} returned {said}")


def _wrong_types(finding: Finding) -> str:
    """What of a finding is not what it must be: nothing checks the types in a user's oracle, and "violated" as a mere
    text would be taken for none of the three judgements.
    """
    given: dict[str, tuple[object, bool]] = {
        "oracle": (finding.oracle, isinstance(finding.oracle, str)),
        "judgement": (finding.judgement, isinstance(finding.judgement, Judgement)),
        "reason": (finding.reason, isinstance(finding.reason, str)),
        "events": (finding.events, _are_indices(finding.events)),
    }
    return ", ".join(f"{name} is {value!r:.100}" for name, (value, right) in given.items() if not right)


def _are_indices(events: object) -> bool:
    return isinstance(events, tuple) and all(isinstance(each, int) and each >= 0 for each in events)
