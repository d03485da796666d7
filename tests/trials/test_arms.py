"""The decorator."""

from __future__ import annotations

from typing import Any

import pytest

import holdback
from holdback.errors import ConfigurationError
from holdback.oracles import Finding, Judgement
from holdback.trials.arms import MARK


def fine(history: holdback.History) -> Finding:
    return Finding("fine", Judgement.HOLDS, "")


def test_a_function_is_marked_and_otherwise_left_alone() -> None:
    """The decorator returns the function itself, with a mark that carries oracles and arms."""

    def test_it() -> None: ...

    marked = holdback.experiment(oracles=[fine])(test_it)
    assert marked is test_it
    (mark,) = marked.pytestmark  # type: ignore[attr-defined]
    assert (mark.name, mark.kwargs) == (MARK, {"oracles": (fine,), "arms": ("control", "treatment")})


@pytest.mark.parametrize(
    "wrong",
    [
        {"oracles": []},
        {"oracles": fine},
        {"oracles": ["fine"]},
        {"oracles": [fine(holdback.History(()))]},
        {"oracles": [fine], "arms": ["placebo"]},
        {"oracles": [fine], "arms": []},
    ],
)
def test_an_experiment_that_could_prove_nothing_is_refused(wrong: dict[str, Any]) -> None:
    """No oracle, what is none, no arm and unknown arms are errors where they are written."""
    with pytest.raises(ConfigurationError):
        holdback.experiment(**wrong)


@pytest.mark.parametrize("name", holdback.__all__)
def test_every_name_of_the_package_is_there(name: str) -> None:
    """What `__all__` promises can be had; what it does not is an AttributeError."""
    assert getattr(holdback, name) is not None
    with pytest.raises(AttributeError):
        holdback.no_such_name  # noqa: B018
