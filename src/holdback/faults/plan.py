"""A scenario's faults, triggers and doses as one file, that a trial writes and that replays.

```yaml
schema: 1
experiment: e2e/test_readmission.py::test_a_drained_workload_is_admitted_again
seed: 7
injections:              # the first `trial.inject` of the scenario puts the first one in force, and so on
- faults:
  - delay:
      target: kueue-manager-{arm}>worker1
      milliseconds: 100
  start:
    object_seen:
      resource: workloads
      'on': worker*
      where:
        status.conditions[Evicted].status: 'True'
  end:
    after:
      seconds: 2
```
Kinds of faults and triggers are called as their classes are, their settings as the fields of those. `{arm}` stands for
the arm, so that one plan serves both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import yaml

from holdback.errors import ConfigurationError
from holdback.faults.triggers import Injection, Trigger
from holdback.faults.values import Fault
from holdback.traffic.lanes import Lane, Link
from holdback.wording import counted

__all__ = ["SCHEMA", "FaultPlan", "Named", "PlannedFault", "PlannedInjection", "read_plan", "write_plan"]

SCHEMA = 1
"""Version of the format; a reader refuses a newer one."""
_ARM = "{arm}"
_TARGET = "target"


def _word(cls: type) -> str:
    """A class's name as plans have it: ObjectSeen is object_seen."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


_FAULTS: Mapping[str, type] = {_word(cls): cls for cls in get_args(Fault)}
_TRIGGERS: Mapping[str, type] = {_word(cls): cls for cls in get_args(Trigger)}

Named = Mapping[str, Any]
"""What faults can be done to, by the names that plans have for it."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault whose target is only named yet.

    `settings` are its other ones, by name, as far as they are not as they always are; `place` is where its plan has
    it, for messages.
    """

    cls: type[Fault]
    target: str
    settings: Mapping[str, Any]
    place: str = field(default="", compare=False)

    def __str__(self) -> str:
        """As the fault itself is described, which is how a trigger names the fault whose end it waits for."""
        return str(self.cls(**{_TARGET: _stand_in(self.target)}, **self.settings))

    def described(self, arm: str) -> str:
        """As its description reads in that arm."""
        return str(self).replace(_ARM, arm)

    def resolve(self, named: Named, arm: str) -> Fault:
        """The fault itself.

        Raises:
            ConfigurationError: there is no such target.
        """
        name = self.target.replace(_ARM, arm)
        if name not in named:
            raise ConfigurationError(
                f"{self.place}: there is no {name!r} here", remedy=f"there are: {', '.join(sorted(named))}"
            )
        return self.cls(**{_TARGET: named[name]}, **_filled(self.settings, arm))


@dataclass(frozen=True, slots=True)
class PlannedInjection:
    """What one `trial.inject` of the scenario puts in force; the arm's name is `{arm}` throughout."""

    faults: tuple[PlannedFault, ...]
    start: Trigger | None = None
    end: Trigger | None = None

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """Those of the two that are there."""
        return tuple(each for each in (self.start, self.end) if each)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A plan as its file says; `experiment` (empty: any) and `seed` are those of the run that wrote it."""

    path: Path
    experiment: str = ""
    seed: int | None = None
    injections: tuple[PlannedInjection, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.injections)

    @property
    def faults(self) -> tuple[PlannedFault, ...]:
        """Those of all injections."""
        return tuple(fault for injection in self.injections for fault in injection.faults)

    def injection(self, number: int, named: Named, arm: str) -> Injection:
        """What the scenario's `trial.inject` of that number (from 0) puts in force.

        Raises:
            ConfigurationError: the plan has no such number, or names what is not in `named`.
        """
        if number >= len(self):
            raise ConfigurationError(
                f"{self.path} has {counted(len(self), 'injection')}, and the scenario asks for one more",
                remedy="write one for each `trial.inject` of the scenario; `faults: []` for one without faults",
            )
        planned = self.injections[number]
        faults = tuple(fault.resolve(named, arm) for fault in planned.faults)
        return Injection(faults, _filled(planned.start, arm), _filled(planned.end, arm))

    def check_used(self, times: int) -> None:
        """Prove that the scenario asked for all of it.

        Raises:
            ConfigurationError: it did not.
        """
        if times < len(self):
            raise ConfigurationError(
                f"{self.path} has {counted(len(self), 'injection')}, and the scenario asked for {times}",
                remedy="write one for each `trial.inject` of the scenario; is the plan for another experiment?",
            )

    def text(self) -> str:
        """What its file says; `read_plan` reads it."""
        data = {
            "schema": SCHEMA,
            "experiment": self.experiment,
            **({} if self.seed is None else {"seed": self.seed}),
            "injections": list(map(_injection_data, self.injections)),
        }
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def write_plan(injections: Sequence[Injection], *, arm: str, experiment: str, seed: int | None = None) -> str:
    """The text of a plan with these injections, which `read_plan` reads."""
    planned = tuple(_planned(injection, arm) for injection in injections)
    return FaultPlan(Path(), experiment, seed, planned).text()


def _planned(injection: Injection, arm: str) -> PlannedInjection:
    return PlannedInjection(
        tuple(_planned_fault(fault, arm) for fault in injection.faults),
        start=_plain_trigger(injection.start, arm),
        end=_plain_trigger(injection.end, arm),
    )


def _planned_fault(fault: Fault, arm: str) -> PlannedFault:
    settings = {name: _plain(value, arm) for name, value in _told(fault).items()}
    return PlannedFault(type(fault), settings.pop(_TARGET), settings)


def _plain_trigger(trigger: Trigger | None, arm: str) -> Trigger | None:
    return trigger and replace(trigger, **{name: _plain(value, arm) for name, value in _told(trigger).items()})


def _injection_data(injection: PlannedInjection) -> dict[str, Any]:
    triggers = {"start": injection.start, "end": injection.end}
    return {
        "faults": [{_word(each.cls): {_TARGET: each.target, **each.settings}} for each in injection.faults],
        **{end: {_word(type(trigger)): _told(trigger)} for end, trigger in triggers.items() if trigger},
    }


def _told(value: Fault | Trigger) -> dict[str, Any]:
    """The settings of a fault or trigger by name, without those that are as they always are."""
    settings = ((each, getattr(value, each.name)) for each in fields(value))
    return {each.name: found for each, found in settings if found != _default(each)}


def _default(of: Any) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


def _plain(value: Any, arm: str) -> Any:
    if isinstance(value, Mapping):
        return {_plain(key, arm): _plain(found, arm) for key, found in value.items()}
    if value is None or isinstance(value, bool | int | float):
        return value
    # Whatever else it is (a lane, a program, a fault that another one waits for), its text is its name.
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(arm)}(?![A-Za-z0-9])", _ARM, str(value))


def _stand_in(name: str) -> Any:
    """Something that has that name and is as much of a lane or link as the name tells; for what takes no other."""
    link, _, kind = name.partition("/")
    client, arrow, cluster = link.partition(">")
    if not arrow:
        return name
    return Lane(Link(client, cluster), kind) if kind else Link(client, cluster)


def _filled(value: Any, arm: str) -> Any:
    """The value with the arm's name in place of `{arm}`."""
    if isinstance(value, str):
        return value.replace(_ARM, arm)
    if isinstance(value, Mapping):
        return {_filled(key, arm): _filled(found, arm) for key, found in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _filled(getattr(value, each.name), arm) for each in fields(value)})
    return value


def read_plan(path: Path) -> FaultPlan:
    """The plan in a file.

    Raises:
        ConfigurationError: it cannot be read, or something in it is not as it must be; with the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read the plan {path}: {error}",
            remedy="name a plan file: plans/ of a report has one for each trial",
        ) from error
    return _Reader(path, text).plan()


class _Reader:
    """Reads a plan node by node, so that every error can tell its line."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text

    def plan(self) -> FaultPlan:
        try:
            self._loader = yaml.SafeLoader(self._text)  # refuses control characters
            root = self._loader.get_single_node()
        except RecursionError as error:
            raise ConfigurationError(
                f"{self._path}: no plan is nested so deeply", remedy="copy one from plans/ of a report"
            ) from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
            raise ConfigurationError(
                f"{self._path}{line}: no YAML: {problem}", remedy="correct that line, or the one before it"
            ) from error
        if root is None:
            raise ConfigurationError(f"{self._path}: an empty plan", remedy="copy one from plans/ of a report")
        known = {"schema": int, "experiment": str, "seed": int, "injections": list}
        found = self._settings(root, known, required=("schema", "injections"))
        if (schema := self._value(found["schema"], int)) != SCHEMA:
            raise self._error(found["schema"], f"schema {schema}, this holdback reads {SCHEMA}")
        return FaultPlan(
            self._path,
            experiment=self._value(found["experiment"], str) if "experiment" in found else "",
            seed=self._value(found["seed"], int) if "seed" in found else None,
            injections=tuple(map(self._injection, self._entries(found["injections"]))),
        )

    def _injection(self, node: yaml.Node) -> PlannedInjection:
        found = self._settings(node, {"faults": list, "start": dict, "end": dict}, required=("faults",))
        return PlannedInjection(
            tuple(map(self._fault, self._entries(found["faults"]))),
            start=self._trigger(found["start"]) if "start" in found else None,
            end=self._trigger(found["end"]) if "end" in found else None,
        )

    def _fault(self, node: yaml.Node) -> PlannedFault:
        cls, settings = self._of(node, _FAULTS, "fault")
        target = settings.pop(_TARGET)
        self._made(node, cls, {_TARGET: _stand_in(target), **settings})  # proves the rest of it
        return PlannedFault(cls, target, settings, self._place(node))

    def _trigger(self, node: yaml.Node) -> Trigger:
        cls, settings = self._of(node, _TRIGGERS, "trigger")
        return cast(Trigger, self._made(node, cls, settings))

    def _of(self, node: yaml.Node, kinds: Mapping[str, type], what: str) -> tuple[type, dict[str, Any]]:
        """The class that a node like `delay: {...}` names, and its settings."""
        pairs = list(self._pairs(node))
        if len(pairs) != 1 or pairs[0][0] not in kinds:
            named = ", ".join(word for word, _ in pairs) or "nothing"
            raise self._error(node, f"{named} is no kind of {what}", remedy=f"kinds are {', '.join(sorted(kinds))}")
        word, inner = pairs[0]
        cls = kinds[word]
        hints = {**get_type_hints(cls), **({_TARGET: str} if what == "fault" else {})}
        known = {each.name: hints[each.name] for each in fields(cls)}
        required = [each.name for each in fields(cls) if _default(each) is MISSING]
        found = self._settings(inner, known, required=required)
        return cls, {name: self._value(value, known[name]) for name, value in found.items()}

    def _made(self, node: yaml.Node, cls: type, settings: Mapping[str, Any]) -> object:
        try:
            return cls(**settings)
        except ConfigurationError as error:
            raise self._error(node, error.message, remedy=error.remedy) from error

    def _settings(
        self, node: yaml.Node, known: Mapping[str, Any], *, required: Sequence[str] = ()
    ) -> dict[str, yaml.Node]:
        found = dict(self._pairs(node))
        for name, value in found.items():
            if name not in known:
                raise self._error(value, f"unknown setting {name!r}", remedy=f"known are {', '.join(known)}")
        if missing := [name for name in required if name not in found]:
            raise self._error(node, f"lacks {', '.join(missing)}")
        return found

    def _pairs(self, node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, "a mapping must be here")
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a word must be here, before the colon")
            name = str(key.value)  # as it is written: YAML would take a bare `on` for True
            if name in seen:
                raise self._error(key, f"{name!r} is here twice")
            seen.add(name)
            yield name, value

    def _entries(self, node: yaml.Node) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, "a list must be here")
        return list(node.value)

    def _value(self, node: yaml.Node, hint: Any) -> Any:
        try:
            value = self._loader.construct_object(node, deep=True)
        except yaml.YAMLError as error:
            raise self._error(node, f"cannot be read: {getattr(error, 'problem', None) or error}") from error
        except (ValueError, KeyError, AttributeError) as error:  # so PyYAML says 2001-99-99, `!!int x`, `!!bool x`
            raise self._error(node, f"cannot be read: {error}") from error
        if not _fits(value, hint):
            raise self._error(node, f"{value!r} cannot be here", remedy=f"it must be {_words(hint)}")
        return value

    def _error(
        self, node: yaml.Node, message: str, *, remedy: str = "correct it, or copy a plan from plans/ of a report"
    ) -> ConfigurationError:
        return ConfigurationError(f"{self._place(node)}: {message}", remedy=remedy)

    def _place(self, node: yaml.Node) -> str:
        return f"{self._path}:{node.start_mark.line + 1}"


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is float:
        # No time or dose is without end, and `nan` would pass each check for what is too small.
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is not None and issubclass(origin, Mapping):
        outer, inner = get_args(hint)
        return (
            isinstance(value, dict)
            and all(_fits(each, outer) for each in value)
            and (inner is Any or all(_fits(each, inner) for each in value.values()))
        )
    return isinstance(value, hint)


def _words(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return " or ".join(sorted({_words(each) for each in get_args(hint)} - {"a fault"}))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    words = {str: "text", int: "a whole number", float: "a finite number", type(None): "null"}
    return words.get(hint, "a mapping whose keys are text" if origin is not None else "a fault")
