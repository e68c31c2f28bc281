"""Integers as large as a file can hold: every command answers, and no number is another than was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile_files import COMMANDS, FEW_COMMANDS, say_all, write_run
from slow import slow

from timing_logger.analysis import overlap
from timing_logger.reading import read_timings
from timing_logger.schema.record import LARGEST

EXTREME = (
    LARGEST + 1, LARGEST,
    *(slow(value, "beyond others that are tried, between them, or as of the other sign")
      for value in (2**63 - 1, 2**62, -LARGEST - 1, -LARGEST, 10**15, -(2**63) + 1, -1)),
)  # fmt: skip


ALL_COMMANDS = pytest.mark.slow("a few commands are quick, and so is what steps are worked out to be")


def sometimes(value: int, field: str) -> Callable[[int], int]:
    """``value`` in one step of six, else what the field has there."""
    usual: dict[str, Callable[[int], int]] = {
        "iteration": lambda step: step % 3,
        "epoch": lambda step: step // 3,
        "seq": lambda step: step,
    }
    return lambda step: value if step == 4 else usual.get(field, lambda _: 1)(step)


@pytest.mark.parametrize(
    ("value", "commands"),
    [
        (2**63 - 1, ("hang",)),
        pytest.param(2**63 - 1, FEW_COMMANDS, marks=ALL_COMMANDS),
        pytest.param(2**63 - 1, COMMANDS, marks=ALL_COMMANDS),
        pytest.param(-(2**63) + 1, COMMANDS, marks=ALL_COMMANDS),
    ],
    ids=["fewest", "few", "all", "all-smallest"],
)
def test_every_command_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: int, commands: Sequence[str]
) -> None:
    fields = ("iteration", "epoch", "seq", "peer", "group_size", "message_size_bytes")
    write_run(tmp_path / "in", **{field: sometimes(value, field) for field in fields})
    for command, said in say_all(tmp_path / "in", tmp_path / "out", capsys, commands).items():
        assert said.code == 0, (command, said)


@pytest.mark.parametrize("value", EXTREME)
@pytest.mark.parametrize(
    "epoch",
    [
        slow(lambda step: step // 3, "that epochs far apart tell steps apart is quick", id="recorded"),
        pytest.param(None, id="counted"),
    ],
)
def test_a_step_is_one_that_was_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: int, epoch: Any
) -> None:
    """Beside epochs that restart iterations, recorded or counted."""
    write_run(tmp_path / "in", iteration=sometimes(value, "iteration"), epoch=epoch)
    command = "overlap --by iteration --json"
    rows = json.loads(say_all(tmp_path / "in", tmp_path, capsys, [command])[command].out)["overlap"]
    known = {row["iteration"] for row in rows} - {None}
    assert known == {0, 1, 2} | ({value} if abs(value) <= LARGEST else set())
    assert {row["epoch"] for row in rows} <= {0, 1, 2, None}


@pytest.mark.parametrize("value", [slow(10**15, "as of the largest"), LARGEST])
def test_epochs_far_apart_tell_steps_apart_exactly(tmp_path: Path, value: int) -> None:
    write_run(tmp_path, epoch=lambda step: value * (step // 3), iteration=lambda step: value * (step % 3 - 1))
    steps = overlap(read_timings(tmp_path))
    of_rank_0 = steps[steps["rank"] == 0]
    assert list(zip(of_rank_0["epoch"], of_rank_0["iteration"], strict=True)) == [
        (epoch, iteration) for epoch in (0, value) for iteration in (-value, 0, value)
    ]


@pytest.mark.slow("that a summary says it is quick in test_diagnostics.py, and which numbers are steps here")
def test_numbers_that_count_as_blank_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    write_run(tmp_path, iteration=sometimes(2**63 - 1, "iteration"))
    timings = read_timings(tmp_path)
    assert timings["iteration"].max() == 2**63 - 1  # which is read as it was recorded
    out = say_all(tmp_path, tmp_path, capsys, ["summary"])["summary"].out
    assert "numbers beyond 9007199254740991 either way count as blank: 3 of iteration." in out
