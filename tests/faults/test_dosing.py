import pytest

from holdback.errors import ConfigurationError
from holdback.faults.dosing import Dosing, read_doses
from holdback.faults.triggers import After, FaultEnded, Injection, ObjectSeen
from holdback.faults.values import Delay, Hold
from holdback.traffic.lanes import Link

LINK = Link("kueue", "worker1")
SEEN = ObjectSeen("jobs", on="worker1")


def test_a_dose_takes_the_place_of_each_delay() -> None:
    """Every delay gets the dose and keeps its share of jitter; what is no delay stays as it is."""
    injection = Injection((Delay(LINK, 100, 20), Delay(LINK.writes, 40, of="requests"), Hold(LINK.watches)), SEEN)
    assert Dosing(50).apply(injection) == Injection(
        (Delay(LINK, 50, 10), Delay(LINK.writes, 50, of="requests"), Hold(LINK.watches)), SEEN
    )


def test_a_dose_of_0_leaves_no_delay() -> None:
    """Only other faults are left with their triggers; where none is, nothing waits for a trigger."""
    assert Dosing(0).apply(Injection((Delay(LINK, 100), Hold(LINK)), SEEN)) == Injection((Hold(LINK),), SEEN)
    assert Dosing(0).apply(Injection((Delay(LINK, 100),), SEEN, After(3))) == Injection(())


@pytest.mark.parametrize("named", [Delay(LINK, 100), str(Delay(LINK, 100))])
def test_who_waits_for_a_delay_finds_it_under_its_dose(named: Delay | str) -> None:
    """A trigger at a delay's end means the delay with the dose; at a dose of 0 that end is at once."""
    waiting = Injection((Hold(LINK),), FaultEnded(named, later=2), FaultEnded("something else"))
    for dose, start in ((50, FaultEnded(Delay(LINK, 50), later=2)), (0, After(2))):
        dosing = Dosing(dose)
        dosing.apply(Injection((Delay(LINK, 100),)))
        assert dosing.apply(waiting) == Injection((Hold(LINK),), start, FaultEnded("something else"))


def test_a_dose_must_be_of_use() -> None:
    """Without any delay it is an error that says what to do, also at a dose of 0."""
    for dose in (0, 50):
        dosing = Dosing(dose)
        dosing.notice([Hold(LINK)])
        with pytest.raises(ConfigurationError, match=f"asks for {dose} ms, and the scenario has no Delay"):
            dosing.check_used()
        dosing.notice([Delay(LINK, 100)])
        dosing.check_used()


def test_doses_are_read() -> None:
    """In rising order, each once."""
    assert read_doses("100, 0,5,5") == (0, 5, 100)


@pytest.mark.parametrize("word", ["", "x", "-1", "1.5", "1,", "\u0661"])
def test_what_is_no_dose_is_refused(word: str) -> None:
    """Only whole numbers are doses, for Toxiproxy knows no others."""
    with pytest.raises(ConfigurationError, match="is no dose"):
        read_doses(word)
