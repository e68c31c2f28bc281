"""Two faults at once: the process that they strike, and its judge. ``make faults`` tries all pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pairs.faults import CANNOT_FOLLOW, FAULTS
from pairs.trying import ENDS, PAIRS, try_pair
from slow import slow


def test_every_ordered_pair_is_tried_unless_nothing_can_follow() -> None:
    assert len(PAIRS) == len(FAULTS) * (len(FAULTS) - len(CANNOT_FOLLOW))
    assert set(CANNOT_FOLLOW) <= ENDS


@pytest.mark.parametrize(
    "pair",
    [
        ("fork by Python", "SIGKILL"),
        slow(("finalizer", "fork by Python"), "another pair"),
        slow(("stalled disk", "interpreter exit"), "another pair"),
        slow(("exec", "unlinked file"), "another pair"),
    ],
    ids=" then ".join,
)
@pytest.mark.both_cores
def test_two_faults_at_once_cost_no_record_whose_call_had_returned(
    tmp_path: Path, pair: tuple[str, str]
) -> None:
    assert try_pair(tmp_path, *pair, "0") == []


@pytest.mark.slow("whether the program that stands for a training is right, of which no promise tells")
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_the_process_ends_as_it_does_without_a_logger(tmp_path: Path, fault: str) -> None:
    first = "thread exit"
    assert try_pair(tmp_path, first, fault, "0", without_logger=True) == []


def damage(logs: Path, change: str) -> None:
    (file,) = logs.glob("timing-rank0.csv")
    lines = file.read_text().splitlines(keepends=True)
    changed = {
        "a row is gone": lines[:10] + lines[11:],
        "a row is there twice": [*lines[:10], lines[9], *lines[10:]],
        "a row is blank": [*lines, ",".join(["2026-11-25T00:00:00.000000", *[""] * 17]) + "\n"],
        "a row is a child's": [*lines, lines[5].replace("TIMINGS0", "CHILD")],
        "a row is torn": [*lines, lines[5][:30]],
    }
    file.write_text("".join(changed[change]))


@pytest.mark.slow("whether the judge of a try is right, of which no promise tells")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("a row is gone", "records are missing"),
        ("a row is there twice", "rows twice"),
        ("a row is blank", "has a row"),
        ("a row is a child's", "rows that were not recorded"),
        ("a row is torn", "is torn"),
    ],
)
def test_the_judge_sees_what_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, said: str
) -> None:
    monkeypatch.setattr("pairs.trying.recovered", lambda logs: damage(logs, change) or 0)
    assert said in " ".join(try_pair(tmp_path, "thread exit", "sub-process", "0"))
