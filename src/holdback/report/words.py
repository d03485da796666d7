"""Sentences and facts about a whole run that more than one kind of report shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from holdback.statistics import ExperimentSummary, Summary, Verdict
from holdback.wording import counted, noun

__all__ = ["headline", "moment", "repeat_command", "run_facts", "skipped_lines", "violated_by", "violations"]

_SEED_OPTION = "--holdback-seed"
_TOLD_APART = {"schema", "command", "merged", "variants", "executables", "servers", "process"}
"""What of run.json has words of its own, or none; `process` only serves to find out whether the run still runs."""


def headline(summary: Summary) -> str:
    """The verdict of the whole run in a few words."""
    verdicts = [experiment.verdict for experiment in summary.experiments]
    if not verdicts:
        return "no verdict, for no trial was completed"
    if len(verdicts) == 1:
        return verdicts[0].value
    if len(set(verdicts)) == 1:
        return f"all {len(verdicts)} experiments are {verdicts[0].value}"
    return f"{verdicts.count(Verdict.FIXED)} of {len(verdicts)} experiments are FIXED"


def skipped_lines(number: int) -> str:
    """Some evidence could not be read."""
    return f"{counted(number, 'damaged line')} of evidence {noun(number, 'was', 'were')} skipped"


def violations(experiment: ExperimentSummary, arm: str) -> list[str]:
    """`133 no_orphan + readmitted` and `44 readmitted`: each violated trial counts once."""
    kinds = experiment.violations.get(arm, ())
    return [f"{kind.trials} {' + '.join(kind.oracles) or 'by no oracle that is named'}" for kind in kinds]


def violated_by(experiment: ExperimentSummary, arm: str) -> str:
    """Those in one line; empty when none was violated."""
    return ", ".join(violations(experiment, arm))


def moment(seconds: float) -> str:
    """Wall time for a reader on another continent."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def repeat_command(run: Mapping[str, Any]) -> str:
    """What to type to make the same trials again; empty when run.json does not tell."""
    command = run.get("command")
    if not isinstance(command, Sequence) or isinstance(command, str):
        return ""
    words = [str(word) for word in command]
    if words[:1] == ["__main__.py"]:  # `python -m pytest`
        words[0] = "pytest"
    seeded = any(word.startswith(_SEED_OPTION) for word in words)
    return shlex.join(words if seeded or "seed" not in run else [*words, f"{_SEED_OPTION}={run['seed']}"])


def run_facts(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What run.json tells, one line a fact, names of inner facts joined by a space; the command is complete."""
    facts = {key: value for key, value in run.items() if key not in _TOLD_APART}
    if isinstance(started := facts.get("started"), int | float):
        facts["started"] = moment(started)
    flat = [(name, value) for name, value in _flat(facts) if value]
    variants = _listed(run, "variants")
    flat += [(f"ran as {each['arm']}", f"{each['description']} ({each['fingerprint']})") for each in variants]
    flat += [*_executables(run), *_servers(run)]
    command = repeat_command(run)
    return [*flat, ("repeat with", command)] if command else flat


def _listed(run: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    return run.get(key) or ()


def _executables(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Those of the cache are what this version of holdback pins; where another one was taken, that is told."""
    for each in _listed(run, "executables"):
        yield each["name"], each["version"] + ("" if each["from"] == "cache" else f" ({each['from']})")


def _servers(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The version of Kubernetes, once where it is the same everywhere."""
    versions = {each["cluster"]: each["version"] for each in _listed(run, "servers")}
    if len(set(versions.values())) == 1:
        yield "Kubernetes", next(iter(versions.values()))
    else:
        yield from ((f"Kubernetes of {cluster}", version) for cluster, version in versions.items())


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield name, ", ".join(map(_plain, value))
        else:
            yield name, _plain(value)


def _plain(value: object) -> str:
    """Empty for what was not asked for: nothing, or no."""
    if value is None or value is False:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
