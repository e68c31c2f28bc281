"""The counters and clocks of files on the page, and its sentences on what could not be known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from timing_logger.report._limits import FEW_PROCESSES
from timing_logger.report.html._accounting import clocks_table, files_table, what_is_unknown
from timing_logger.report.html._crowd import Crowd, InTimeline
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._timeline import Timeline

DRAWN = Timeline(9, 0, 0.0, 0, True, [], None, 1.0, {}, None)


def file_of(rank: int = 0, **fields: Any) -> dict[str, Any]:
    path = f"timing-rank{rank}.csv"
    return {
        "path": path, "rank": rank, "incarnation": 1, "parts": [{"path": path}], "bytes": 2000, "cut": "",
        "bad_lines": 0, "bad_examples": [], "sidecar": {}, **fields,
    }  # fmt: skip


def counters_of(rank: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "rank": rank, "incarnation": 1, "file": f"timing-rank{rank}.csv", "rows": 5, "has_sidecar": True,
        "accepted": 5, "written": 4, "dropped": 0, "pending": 0, "closed": True, "agrees": True, **fields,
    }  # fmt: skip


def found_of(
    *files: dict[str, Any], counters: list[dict[str, Any]] | None = None, is_many: bool = False, **fields: Any
) -> Findings:
    """Return of the findings what is read here; nothing of them is remarkable but for ``fields``."""
    summary = SimpleNamespace(
        files=list(files), counters=counters or [counters_of(file["rank"]) for file in files],
        left_out=[], different_runs="", statuses=pd.DataFrame(),
        ranks=pd.DataFrame({"rank": [file["rank"] for file in files]}),
    )  # fmt: skip
    crowd = Crowd(FEW_PROCESSES + is_many, (), 0, {})
    plain = {"summary": summary, "crowd": crowd, "timeline": DRAWN, "flawed": {}, "violations": 0}
    return cast("Findings", SimpleNamespace(**{**plain, **fields}))


# -- counters --------------------------------------------------------------------------------------------


def test_what_a_logger_counted_and_cost_is_shown() -> None:
    found = found_of(file_of(sidecar={"logger_cpu_ns": 2_500_000}))
    assert files_table(found).rows == [
        ["timing-rank0.csv", "5", "2 kB", "5", "4", "0", "0", "yes", "2.5", "625.00"]
    ]


@pytest.mark.parametrize(
    ("cpu_ns", "written", "cost"),
    [
        (None, 4, ["-", "-"]),
        ("7", 4, ["-", "-"]),
        (2_500_000, 0, ["2.5", "-"]),
        (2_500_000, None, ["2.5", "-"]),
    ],
)
def test_a_cost_that_is_not_known_is_told_as_such(
    cpu_ns: object, written: int | None, cost: list[str]
) -> None:
    found = found_of(file_of(sidecar={"logger_cpu_ns": cpu_ns}), counters=[counters_of(written=written)])
    assert files_table(found).rows[0][-2:] == cost


@pytest.mark.parametrize(("is_many", "order"), [(False, [0, 1, 2, 3]), (True, [2, 1, 3, 0])])
def test_of_many_files_those_that_are_not_complete_and_then_the_costly_come_first(
    is_many: bool, order: list[int]
) -> None:
    costs_ns = [None, 9, 1, 5]
    files = [file_of(rank, sidecar={"logger_cpu_ns": ns}) for rank, ns in enumerate(costs_ns)]
    counters = [counters_of(rank, dropped=int(rank == 2)) for rank in range(4)]
    table = files_table(found_of(*files, counters=counters, is_many=is_many))
    assert [row[0] for row in table.rows] == [f"timing-rank{rank}.csv" for rank in order]


# -- clocks ----------------------------------------------------------------------------------------------


def test_the_worst_that_is_known_of_clocks_is_shown() -> None:
    sidecar = {
        "host": "node\x1b1", "clock_anchors": [{"uncertainty_ns": 100}, {"uncertainty_ns": 2500}],
        "device_clocks": [{"worst_uncertainty_ns": 7000}, {}, {"worst_uncertainty_ns": 50}],
    }  # fmt: skip
    clock = {"alignment": "measured", "uncertainty_s": 3.21e-6}
    assert clocks_table(found_of(file_of(3, incarnation=2, sidecar=sidecar, clock=clock))).rows == [
        ["rank 3, run 2", r"node\u001b1", "measured", "3.2", "2.50", "7.00"]
    ]


@pytest.mark.parametrize(("sidecar", "host"), [({"host": "node1"}, "node1"), ({}, "-")])
def test_of_clocks_of_which_nothing_is_known_that_is_said(sidecar: dict[str, Any], host: str) -> None:
    found = found_of(file_of(0, clock=None, sidecar=sidecar))
    assert clocks_table(found).rows == [["rank 0, run 1", host, "-", "-", "-", "-"]]


@pytest.mark.parametrize(("is_many", "order"), [(False, [0, 1, 2]), (True, [1, 2, 0])])
def test_of_many_clocks_those_known_worst_come_first(is_many: bool, order: list[int]) -> None:
    known = [1e-6, None, 5e-6]
    files = [file_of(rank, clock={"uncertainty_s": known_s}) for rank, known_s in enumerate(known)]
    table = clocks_table(found_of(*files, is_many=is_many))
    assert [row[0] for row in table.rows] == [f"rank {rank}, run 1" for rank in order]


# -- what is unknown -------------------------------------------------------------------------------------


def test_of_a_run_of_which_all_is_known_nothing_is_said() -> None:
    assert what_is_unknown(found_of(file_of(0), file_of(1))) == []


@pytest.mark.parametrize(
    ("every", "said"), [([1, 1], []), ([2, 5], ["5"]), (["x", None], []), ([None, 2], ["2"])]
)
def test_iterations_that_were_not_recorded_are_told(every: list[object], said: list[str]) -> None:
    files = [
        file_of(rank, sidecar={"options": {"record_every_n_steps": number}})
        for rank, number in enumerate(every)
    ]
    assert what_is_unknown(found_of(*files)) == [
        f"One of {n} iterations was recorded; what happened between is not known." for n in said
    ]


def test_ten_reasons_why_collectives_are_left_out_are_told_and_the_others_counted() -> None:
    flawed = {("incomplete", f"reason {at}"): 1 + at for at in range(12)}
    few = dict(list(flawed.items())[:10])
    each = [f"{n} collective{'s' if n > 1 else ''} incomplete: reason {n - 1}." for n in range(1, 11)]
    assert what_is_unknown(found_of(file_of(), flawed=few)) == each
    assert what_is_unknown(found_of(file_of(), flawed=flawed)) == [
        *each, "23 more collectives incomplete or mismatched, for other reasons."
    ]  # fmt: skip


def test_rows_that_ended_too_early_are_told() -> None:
    assert what_is_unknown(found_of(file_of(), violations=1)) == [
        "1 row ended before all ranks had arrived in the collective: the clocks are off."
    ]


def test_clocks_that_are_not_known_to_agree_are_told_of_several_ranks() -> None:
    apart = DRAWN._replace(is_common=False)
    assert what_is_unknown(found_of(file_of(0), timeline=apart)) == []
    (said,) = what_is_unknown(found_of(file_of(0), file_of(1), timeline=apart))
    assert said.startswith("The ranks' clocks are not known to agree.")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"left_out": 1, "shortest_ms": 0.0123449},
            "1 row shorter than 0.01234 ms are not in the timeline, which draws the 9 longest.",
        ),
        (
            {"left_out": 2000, "shortest_ms": 1.0, "whose": InTimeline((1,), (2, 3), (4,))},
            "2,000 rows shorter than 1 ms are not in the timeline, which draws the 9 longest of 4 ranks.",
        ),
        ({"without_instants": 3}, "3 rows without a start and an end: not in the timeline."),
    ],
)
def test_rows_that_are_not_drawn_are_counted(fields: dict[str, Any], said: str) -> None:
    assert what_is_unknown(found_of(file_of(), timeline=DRAWN._replace(**fields))) == [said]
