"""What explains a part of a difference, in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from compared_runs import comparison

from timing_logger.results.comparison import CauseKind, NewCause
from timing_logger.results.plain import UNLOGGED
from timing_logger.schema.record import COMPILE, GC
from timing_logger.words.comparison import _part, cause_sentences

TOOK = "3.000 ms in each step against 2.000 ms"
OFTEN = {"amount": 4.0, "against_amount": 0.5}


@pytest.mark.parametrize(
    ("kind", "verb"), [("transfer", "take"), ("waiting", "takes"), ("not timed", "takes")]
)
def test_transfers_take_time_and_other_parts_take_it_as_one(kind: CauseKind, verb: str) -> None:
    said = _part(NewCause(kind, "", "", (), 3.0, 2.0))
    assert f" {verb} " in said
    assert said.endswith("in each step against 2.000 ms.")


def said_of(kind: CauseKind, operation: str, **further: Any) -> str:
    cause = NewCause(kind, operation, "", (), 3.0, 2.0)._replace(**further)
    (said,) = cause_sentences(comparison(causes=(cause,)))
    return said


@pytest.mark.parametrize(
    ("operation", "further", "said"),
    [
        ("DATA", {"ranks": (2,)}, f"Rank 2 fell behind its peers in DATA: by {TOOK}."),
        ("", {"ranks": (2, 3)}, f"Ranks 2 and 3 fell behind their peers: by {TOOK}."),
        (
            UNLOGGED, {"ranks": (2,), "ms": 1.0},
            "Rank 2 caught up with its peers in code that no row covers: by 1.000 ms in each step against "
            "2.000 ms.",
        ),
    ],
)  # fmt: skip
def test_of_ranks_it_is_said_whether_they_fell_behind_and_in_what(
    operation: str, further: dict[str, Any], said: str
) -> None:
    assert said_of("rank", operation, **further) == said


@pytest.mark.parametrize(
    ("operation", "amounts", "said"),
    [
        (GC, OFTEN, f"Garbage collections ({GC}) take {TOOK}; there are 4 in a step against 0.5."),
        (COMPILE, {}, f"Compilations ({COMPILE}) take {TOOK}; there are 0 in a step against 0."),
        ("OTHER", OFTEN, f"OTHER (OTHER) take {TOOK}; there are 4 in a step against 0.5."),
    ],
)
def test_pauses_have_a_name_and_are_counted(operation: str, amounts: dict[str, Any], said: str) -> None:
    assert said_of("pauses", operation, **amounts) == said


@pytest.mark.parametrize(
    ("further", "said"),
    [
        (
            {"layer": "fc", "amount": 4096.0, "against_amount": 2048.0},
            "X has 4.1 kB against 2.05 kB in a step, most of the difference in 'fc'.",
        ),
        ({}, "X has 0 B against 0 B in a step."),
    ],
)
def test_bytes_of_each_side_are_told_and_the_layer_if_there_is_one(
    further: dict[str, Any], said: str
) -> None:
    assert said_of("bytes", "X", **further) == f"{said} It takes {TOOK}."


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("count", f"X is made 4 times in a step against 0.5. It takes {TOOK}."),
        ("new", "X is new: it takes 3.000 ms in each step."),
        ("gone", "X is gone: it took 2.000 ms in each step."),
        ("work", f"X takes {TOOK}."),
    ],
)
def test_what_is_done_otherwise_is_told_with_what_it_takes(kind: CauseKind, said: str) -> None:
    assert said_of(kind, "X", **OFTEN) == said


def test_what_is_divided_otherwise_is_said_to_have_as_many_bytes() -> None:
    assert said_of("divided", "X", **OFTEN) == (
        "X has as many bytes in all, divided otherwise: it is made 4 times in a step against 0.5, in other "
        f"layers or buckets. It takes {TOOK}."
    )
