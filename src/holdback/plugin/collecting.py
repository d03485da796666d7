"""From collected functions to planned trials: arms, blocks, order and names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from holdback.plugin.settings import FAULTS, SETTINGS
from holdback.trials.arms import ARMS, MARK
from holdback.trials.schedule import Slot, derive, order
from holdback.trials.trial import Plan

_ARM, _DOSE = "holdback_arm", "holdback_dose"
_REPETITION = "__pytest_repeat_step_number"

PLAN = pytest.StashKey[Plan]()
"""Of each item that is a trial."""
CHOSEN = pytest.StashKey[bool]()
"""Of the configuration: another plugin chose the trials, so there is no verdict to speak of."""
EXPERIMENTS = pytest.StashKey[Sequence[str]]()
"""All experiments of the run, in every process of it."""
_LONELY = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item an arm, and a dose if asked for: they come first in the item's id, pytest-repeat's number last."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    if "trial" not in metafunc.fixturenames:
        raise pytest.Collector.CollectError(
            f"the experiment {metafunc.definition.nodeid} has no trial\n  -> take the fixture `trial` as an argument"
        )
    metafunc.fixturenames.append(_ARM)
    metafunc.parametrize(_ARM, mark.kwargs["arms"], indirect=True, scope="function")
    if doses := metafunc.config.stash[SETTINGS].doses:
        metafunc.fixturenames.append(_DOSE)
        metafunc.parametrize(_DOSE, doses, ids=[_dose_word(dose) for dose in doses], indirect=True, scope="function")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Interleave the arms; last of all, so that no other plugin undoes it. Other items stay where they are."""
    _deselect_what_is_not_planned(config, items)
    places = [place for place, item in enumerate(items) if _is_experiment(item)]
    ours = [items[place] for place in places]
    settings = config.stash[SETTINGS]
    slots = [_slot(item, settings.doses) for item in ours]
    names = _short_names(slots)
    for item, slot in zip(ours, slots, strict=True):
        dose = settings.doses[slot.dose_number] if settings.doses else None
        item.stash[PLAN] = Plan(
            id=_trial_id(names[slot.experiment], slot, dose),
            experiment=slot.experiment,
            arm=slot.arm,
            index=slot.index,
            block=slot.index,
            seed=derive(settings.seed, "trial", slot.experiment, slot.index),
            dose=dose,
        )
    config.stash[EXPERIMENTS] = tuple(names)
    for place, number in zip(places, order(slots, settings.seed), strict=True):
        items[place] = ours[number]
    config.stash[CHOSEN] = _select(config, items)
    if not config.stash[CHOSEN]:
        config.stash[_LONELY] = _lonely(ours, slots)


def _select(config: pytest.Config, items: list[pytest.Item]) -> bool:
    """Whether another plugin chose the trials, which is then done."""
    plans = [item.stash[PLAN] for item in items if PLAN in item.stash]
    chosen = config.hook.pytest_holdback_select(config=config, plans=plans)
    if chosen is None:
        return False
    others = [item for item in items if PLAN not in item.stash or item.stash[PLAN].id not in chosen]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
    for item in items:
        item.stash[PLAN] = chosen[item.stash[PLAN].id]
    return True


def _deselect_what_is_not_planned(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With a plan that names its experiment, the trials of others are not made."""
    plan = config.stash[FAULTS]
    if plan is None or not plan.experiment:
        return
    doses = config.stash[SETTINGS].doses
    others = [item for item in items if _is_experiment(item) and _slot(item, doses).experiment != plan.experiment]
    if len(others) == sum(map(_is_experiment, items)):
        raise pytest.UsageError(
            f"{plan.path} is a plan for {plan.experiment}, which was not collected\n"
            "  -> give the file it is in as well, or take `experiment` out of the plan to use it for another one"
        )
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say before the trials, not after them, that they cannot lead to a verdict."""
    return config.stash.get(_LONELY, [])


def _is_experiment(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.get_closest_marker(MARK) is not None


def _slot(item: pytest.Item, doses: Sequence[int]) -> Slot:
    """Which experiment, arm, dose and repetition it is; parameters of the user's own make experiments of their own."""
    assert isinstance(item, pytest.Function)
    params: dict[str, Any] = dict(item.callspec.params)
    arm, repetition = str(params[_ARM]), params.get(_REPETITION)
    inside = item.callspec.id.removeprefix(arm).removeprefix("-")
    if doses:
        inside = inside.removeprefix(_dose_word(params[_DOSE])).removeprefix("-")
    if repetition is not None:
        inside = re.sub(rf"(^|-){repetition + 1}-\d+$", "", inside)
    parent = item.parent.nodeid if item.parent else ""
    name = f"{parent}::{item.originalname}"
    number = doses.index(params[_DOSE]) if doses else 0
    return Slot(f"{name}[{inside}]" if inside else name, arm, repetition or 0, number, max(1, len(doses)))


def _dose_word(dose: int) -> str:
    return f"{dose}ms"


def _trial_id(name: str, slot: Slot, dose: int | None) -> str:
    words = (name, slot.arm, *(() if dose is None else (_dose_word(dose),)), f"{slot.index + 1:03d}")
    return "-".join(words)


def _short_names(slots: Sequence[Slot]) -> dict[str, str]:
    """For each experiment a name that is unique among them and can be typed and be a file's name."""
    slugs = {slot.experiment: _slug(slot.experiment) for slot in slots}
    times = Counter(slugs.values())
    return {
        experiment: slug if times[slug] == 1 else f"{slug}-{derive(0, experiment) % 65536:04x}"
        for experiment, slug in slugs.items()
    }


def _slug(experiment: str) -> str:
    name = experiment.rpartition("::")[2].removeprefix("test_")
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:60].rstrip("-.") or "experiment"


def _lonely(items: Sequence[pytest.Item], slots: Sequence[Slot]) -> list[str]:
    wanted = {slot.experiment: mark_of(item).kwargs["arms"] for item, slot in zip(items, slots, strict=True)}
    present = {(slot.experiment, slot.arm) for slot in slots}
    return [
        f"holdback: {experiment} runs without its {arm} arm (it was deselected): there will be no verdict"
        for experiment, arms in wanted.items()
        for arm in ARMS
        if arm in arms and (experiment, arm) not in present
    ]


def mark_of(item: pytest.Item) -> pytest.Mark:
    """The mark of an experiment's item."""
    mark = item.get_closest_marker(MARK)
    assert mark is not None
    return mark
