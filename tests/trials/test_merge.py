import json
from pathlib import Path
from typing import Any

import pytest

from holdback.errors import EvidenceError
from holdback.history.store import Store
from holdback.trials.merge import merge
from holdback.trials.outcome import read_rows
from tests.report.sample import report


def shard(
    directory: Path, number: int, control: str = "vv", treatment: str = "hh", *, of: int = 0, **changes: Any
) -> Path:
    """A report of its own: another run, another seed, other seeds of its trials; a shard where there are `of` many."""
    facts: dict[str, Any] = {"id": f"run{number}", "seed": number}
    if of:
        facts["shard"] = {"number": number, "of": of, "seed": 5}
    made = report(directory, control, treatment, facts=facts, **changes)
    lines = made.trials_path.read_text().replace('"seed": 1', f'"seed": {number}1')
    made.trials_path.write_text(lines)
    return directory


def test_every_trial_is_there_once_under_a_name_of_its_own(tmp_path: Path) -> None:
    """The merged report has all trials, numbered on, each with its own history, and the sources are untouched."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2, "vvv", "hhh")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json*")}
    merged = merge(tmp_path / "out", [one, two])
    rows, damages = read_rows(Store(tmp_path / "out"))
    assert rows == merged.rows
    assert not damages
    assert [line["id"] for _, line in merged.store.planned()[0]] == [row.id for row in rows]
    assert sorted(row.index for row in rows if row.arm == "control") == [0, 1, 2, 3, 4]
    for row in rows:
        history, torn = merged.store.history(row.id)
        assert history.scope["trial"] == row.id
        assert not torn
    assert {path: path.read_bytes() for path in before} == before


def test_plans_go_with_their_trials(tmp_path: Path) -> None:
    """Each trial's plan is there under the trial's new name, and a trial without one gets none."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)
    planned = {1: Store(one), 2: Store(two)}
    for number, store in planned.items():
        store.keep_plan(read_rows(store)[0][0].id, f"the plan of {number}")
    merged = merge(tmp_path / "out", [one, two])
    first = {run: next(row.id for row in merged.rows if str(row.seed).startswith(str(run))) for run in planned}
    kept = {path.stem: path.read_text() for path in merged.store.plans.iterdir()}
    assert kept == {first[run]: f"the plan of {run}" for run in planned}


@pytest.mark.parametrize("known", [True, False])
def test_a_checkout_that_changed_is_another_variant(tmp_path: Path, known: bool) -> None:
    """Shards whose variants have one name and different content are refused; older reports do not tell."""
    sources = [shard(tmp_path / str(number), number) for number in (1, 2)]
    for number, source in enumerate(sources if known else sources[:1]):
        words = {"arm": "treatment", "description": "Kueue checkout ../kueue", "fingerprint": f"f{number}"}
        Store(source).add("variants", [words, {**words, "arm": "control", "fingerprint": "same"}])
    if not known:
        merge(tmp_path / "out", sources)
        return
    with pytest.raises(EvidenceError, match="treatment: Kueue checkout") as caught:
        merge(tmp_path / "out", sources)
    assert "control" not in caught.value.message


def test_blocks_never_mix(tmp_path: Path) -> None:
    """The arms of a block stay together, and no block holds trials of two reports: only so the test stays exact."""
    sources = [shard(tmp_path / str(number), number, "vvv", "hh") for number in (1, 2, 3)]
    merged = merge(tmp_path / "out", sources)
    blocks: dict[int, set[int]] = {}
    for row in merged.rows:
        blocks.setdefault(row.block, set()).add(row.seed)
    assert len(blocks) == 9
    assert all(len(seeds) == 1 for seeds in blocks.values())


def test_a_merged_report_can_be_merged_again(tmp_path: Path) -> None:
    """What was merged before keeps its runs, so that its parts are recognised."""
    one, two, three = (shard(tmp_path / str(number), number) for number in (1, 2, 3))
    merge(tmp_path / "both", [one, two])
    merge(tmp_path / "all", [tmp_path / "both", three])
    assert [run["seed"] for run in Store(tmp_path / "all").run()["merged"]] == [1, 2, 3]
    with pytest.raises(EvidenceError, match="they are one run"):
        merge(tmp_path / "twice", [tmp_path / "both", two])


def test_the_same_seed_is_refused(tmp_path: Path) -> None:
    """Two machines with one seed made the same trials: they are no new evidence."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)
    run = json.loads((two / "run.json").read_text())
    (two / "run.json").write_text(json.dumps({**run, "seed": 1}))
    with pytest.raises(EvidenceError, match="same seed 1"):
        merge(tmp_path / "out", [one, two])


def test_a_trial_is_never_counted_twice(tmp_path: Path) -> None:
    """A copy that was given another run's name is found by its trials."""
    one = shard(tmp_path / "one", 1)
    two = shard(tmp_path / "two", 2)
    (two / "trials.jsonl").write_bytes((one / "trials.jsonl").read_bytes())
    with pytest.raises(EvidenceError, match="4 trials are both in"):
        merge(tmp_path / "out", [one, two])


def test_a_line_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """A report whose file was written twice is refused by itself."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)
    (one / "trials.jsonl").write_text((one / "trials.jsonl").read_text() * 2)
    with pytest.raises(EvidenceError, match=r"one has trial 0 of control .* twice"):
        merge(tmp_path / "out", [one, two])


def test_other_experiments_are_refused(tmp_path: Path) -> None:
    """The message names the experiment that only one of them has."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2, experiment="e2e/other.py::test_y")
    with pytest.raises(EvidenceError, match=r"e2e/other\.py::test_y"):
        merge(tmp_path / "out", [one, two])


def test_a_shard_that_was_cut_short_lacks_experiments(tmp_path: Path) -> None:
    """Shards of one run are merged although one of them did not come to every experiment."""
    one, two = shard(tmp_path / "one", 1, of=2), shard(tmp_path / "two", 2, of=2)
    more = report(tmp_path / "more", "v", "h", experiment="e2e/other.py::test_y")
    with (one / "trials.jsonl").open("a") as file:
        file.write(more.trials_path.read_text().replace('"id": "', '"id": "y-'))
    merged = merge(tmp_path / "out", [one, two])
    assert {row.experiment: row.block for row in merged.rows} == {
        read_rows(Store(two))[0][0].experiment: 3,
        "e2e/other.py::test_y": 0,
    }


def test_missing_shards_are_told(tmp_path: Path) -> None:
    """The merge names the shards that are not there, and its run.json keeps their names."""
    one, three = shard(tmp_path / "one", 1, of=4), shard(tmp_path / "three", 3, of=4)
    merged = merge(tmp_path / "out", [one, three])
    assert [each.number for each in merged.missing] == [2, 4]
    assert merged.store.run()["missing"] == [f"shard {number} of 4 of the run with seed 5" for number in (2, 4)]
    assert merge(tmp_path / "again", [merged.store.directory, shard(tmp_path / "two", 2, of=4)]).missing[0].number == 4


def test_the_only_shard_of_many_can_be_merged(tmp_path: Path) -> None:
    """What is left of a run in parts makes a report, even when it is one part."""
    merged = merge(tmp_path / "out", [shard(tmp_path / "one", 1, of=2)])
    assert len(merged.rows) == 4
    assert [each.number for each in merged.missing] == [2]


def test_the_same_shard_twice_is_refused(tmp_path: Path) -> None:
    """Two runs of one shard made the same trials."""
    one, again = shard(tmp_path / "one", 1, of=2), shard(tmp_path / "again", 1, of=2)
    run = json.loads((again / "run.json").read_text())
    (again / "run.json").write_text(json.dumps({**run, "id": "another"}))
    with pytest.raises(EvidenceError, match="same seed 1"):
        merge(tmp_path / "out", [one, again])


def test_an_arm_whose_world_never_stood_is_no_other_variant(tmp_path: Path) -> None:
    """A report that has nothing but INVALID trials of an arm is merged: they are evidence too."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2, treatment="ii")
    rows = [json.loads(line) for line in (two / "trials.jsonl").read_text().splitlines()]
    lines = [json.dumps({**row, "variant": "" if row["arm"] == "treatment" else row["variant"]}) for row in rows]
    (two / "trials.jsonl").write_text("\n".join(lines) + "\n")
    assert len(merge(tmp_path / "out", [one, two]).rows) == 8


def test_other_variants_are_refused(tmp_path: Path) -> None:
    """The message names what each of them ran."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2, variant="Kueue v9")
    with pytest.raises(EvidenceError, match="Kueue v9"):
        merge(tmp_path / "out", [one, two])


def test_damaged_lines_are_told_and_stay_damaged(tmp_path: Path) -> None:
    """A damaged row is reported and noted in run.json; a damaged line of a history is there to be reported again."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)
    with (one / "trials.jsonl").open("a") as file:
        file.write("{broken\n")
    torn = sorted((two / "histories").iterdir())[0]
    torn.write_text(torn.read_text() + "{broken\n")
    merged = merge(tmp_path / "out", [one, two])
    assert [damage.line for damage in merged.damages] == [5]
    assert len(merged.store.run()["damaged"]) == 1
    assert sum(len(merged.store.history(row.id)[1]) for row in merged.rows) == 1


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A directory that has anything in it is refused."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)
    with pytest.raises(EvidenceError, match="is there already"):
        merge(one, [one, two])


def test_nothing_is_put_into_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep and however it is named: what is merged stays as it is."""
    one, two = shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)
    monkeypatch.chdir(tmp_path)
    for out in (one / "all", Path("two/a/b"), tmp_path / "three/../one/all"):
        with pytest.raises(EvidenceError, match="would be inside"):
            merge(out, [one, two])
        assert not out.exists()


@pytest.mark.parametrize("names", [["one"], ["one", "nothing"]])
def test_what_is_no_report_is_refused(tmp_path: Path, names: list[str]) -> None:
    """One report alone, and a directory without a run, are errors."""
    shard(tmp_path / "one", 1)
    with pytest.raises(EvidenceError):
        merge(tmp_path / "out", [tmp_path / name for name in names])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", [[], {}, [1], {"a": 1}, 1.5], ids=repr)
@pytest.mark.parametrize("fact", ["id", "seed", "shard", "variants"])
def test_a_damaged_run_is_refused_by_name(tmp_path: Path, fact: str, wrong: object) -> None:
    """A run.json whose facts are not of their kind is refused, or taken as silent where it is empty: never a crash."""
    sources = [shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)]
    path = Store(tmp_path / "one").run_path
    path.write_text(json.dumps({**json.loads(path.read_text()), fact: wrong}))
    try:
        merge(tmp_path / "all", sources)
    except EvidenceError as error:
        assert "run.json of" in error.message and str(tmp_path / "one") in error.message
        assert error.remedy
    else:
        assert fact in {"shard", "variants"} and not wrong


@pytest.mark.parametrize("wrong", [None, "x", 1.5, [], {}], ids=repr)
def test_a_damaged_plan_line_stops_no_merge(tmp_path: Path, wrong: object) -> None:
    """A line of planned.jsonl whose number is none is no reason to lose the trials that were judged."""
    sources = [shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)]
    trials = sum(len(read_rows(Store(source))[0]) for source in sources)
    for source in sources:
        row = read_rows(Store(source))[0][0]
        with Store(source).planned_path.open("a") as file:
            file.write(json.dumps({"id": "t", "experiment": row.experiment, "arm": row.arm, "index": wrong}) + "\n")
    assert len(merge(tmp_path / "all", sources).rows) == trials


@pytest.mark.parametrize("part", ["plan_path", "history_path"])
def test_a_folder_in_place_of_evidence_is_told(tmp_path: Path, part: str) -> None:
    """What is there and cannot be read is an error that names it, not a trial without a history or plan."""
    sources = [shard(tmp_path / "one", 1), shard(tmp_path / "two", 2)]
    path = getattr(Store(sources[0]), part)(read_rows(Store(sources[0]))[0][0].id)
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    with pytest.raises(EvidenceError, match="cannot read the evidence"):
        merge(tmp_path / "all", sources)
