"""The benchmark of verdicts is right itself: its truth, its tables, and how it marks a verdict."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _tables_of_page as tables
import numpy as np
import pytest
from places import ROOT
from verdict_accuracy import noise, page, timeline
from verdict_accuracy.architectures import one_forward_one_backward
from verdict_accuracy.cells import scenarios
from verdict_accuracy.faults import Truth
from verdict_accuracy.figures import calibration
from verdict_accuracy.scoring import Outcome, judged, scored
from verdict_accuracy.simulation import Scenario, SimulatedRun, is_job, simulate
from verdict_accuracy.targets import standings

from timing_logger.analysis import match_collectives, message_waits, stragglers
from timing_logger.schema.record import COLUMNS

pytestmark = pytest.mark.slow("of a benchmark: make test-deep runs it where that changes")

SLOW = Truth("rank", frozenset({2}), 0, 9)
HEALTHY = Truth("healthy")
LINE = Scenario("halo", "all rows", "steady", "slow 20%", 8)
JOB = LINE._replace(architecture="training")


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "JITTER", 0.0)
    monkeypatch.setattr(timeline, "TRANSFER_JITTER", 0.0)
    calm = {"steady": lambda rng, shape: noise.Noise(np.ones(shape), np.zeros(shape))}
    monkeypatch.setattr("verdict_accuracy.simulation.NOISES", calm)


def run_of(
    architecture: str, fault: str, ranks: int = 4, logged: str = "all rows", steps: int = 5
) -> SimulatedRun:
    return simulate(Scenario(architecture, logged, "steady", fault, ranks, steps), seed=1)


# -- the truth -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize(
    ("architecture", "work_ms", "step_ms"),
    [("data-parallel", 90.0, 100.0), ("sharded", 87.0, 105.0), ("tensor-parallel", 87.0, 101.4)],
)
def test_a_slow_rank_costs_what_its_work_takes_longer(
    architecture: str, work_ms: float, step_ms: float
) -> None:
    run = run_of(architecture, "slow 20%", ranks=8)
    assert run.cost_ms == pytest.approx(5 * 0.2 * work_ms)
    assert run.run_ms == pytest.approx(5 * (step_ms + 0.2 * work_ms))


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("fault", ["slow 50%", "last stage 40%", "slow link", "all ranks 50%"])
@pytest.mark.parametrize("architecture", ["halo", "tensor-parallel", "pipeline"])
def test_the_cost_is_what_the_run_takes_longer_than_one_in_which_all_are_healthy(
    architecture: str, fault: str
) -> None:
    healthy, faulty = (run_of(architecture, wrong, ranks=8) for wrong in ("healthy", fault))
    assert faulty.cost_ms > 0
    assert faulty.cost_ms == pytest.approx(faulty.run_ms - healthy.run_ms)


@pytest.mark.usefixtures("noiseless")
def test_pauses_cost_their_length_in_the_steps_that_have_one() -> None:
    run = run_of("data-parallel", "sporadic pauses", steps=40)
    assert run.cost_ms == pytest.approx(0.3 * 40 * 60.0)


@pytest.mark.usefixtures("noiseless")
def test_a_slow_link_makes_every_collective_longer_for_all_and_no_work() -> None:
    run = run_of("data-parallel", "slow link")
    assert run.cost_ms == pytest.approx(5 * 19 * 10.0)
    assert run.self_ms is not None
    assert np.allclose(run.self_ms, 90.0)


@pytest.mark.usefixtures("noiseless")
def test_a_healthy_run_costs_nothing() -> None:
    assert run_of("halo", "healthy").cost_ms == 0.0


# -- the tables ----------------------------------------------------------------------------------


def test_a_table_has_the_columns_of_one_that_was_read() -> None:
    timings = run_of("halo", "slow 20%").timings
    assert list(timings) == [*COLUMNS, "rank", "incarnation"]
    durations_ms = 1000 * (timings["end_counter"] - timings["start_counter"])
    assert np.allclose(timings["elapsed_ms"], durations_ms, atol=1e-6)


@pytest.mark.parametrize(("architecture", "ranks"), [("halo", 4), ("sharded", 4), ("pipeline", 8)])
def test_every_collective_of_a_table_finds_all_its_ranks(architecture: str, ranks: int) -> None:
    matched = match_collectives(run_of(architecture, "healthy", ranks).timings)
    assert len(matched)
    assert (matched.groupby(["group", "seq", "operation"]).size() == matched["group_size"].max()).all()


def test_messages_are_numbered_by_direction_and_peer() -> None:
    rows = run_of("halo", "healthy", ranks=2).timings
    sent = rows[rows["operation"] == "ISEND"]
    assert sent.groupby("rank")["seq"].apply(list).tolist() == [[0, 1, 2, 3, 4]] * 2
    assert len(message_waits(run_of("pipeline", "healthy", ranks=8).timings))


def test_what_is_not_logged_has_no_rows() -> None:
    hidden = run_of("tensor-parallel", "healthy", 8, logged="no team collectives")
    assert set(hidden.timings["operation"]) == {"DATA", "FORWARD", "BACKWARD", "ALLREDUCE", "OPTIMIZER"}
    assert (hidden.timings["group"] != "tp0").all()
    only = run_of("halo", "healthy", logged="communication only")
    assert set(only.timings["operation"]) == {"ISEND", "IRECV", "WAIT", "ALLREDUCE"}
    assert only.self_ms is None


def test_one_forward_one_backward_does_each_micro_batch_once_each_way_and_in_turn() -> None:
    order = one_forward_one_backward(4, 8)
    assert len(order) == len(set(order)) == 4 * 8 * 2
    last = [is_forward for stage, is_forward, _ in order if stage == 3]
    assert last == [True, False] * 8
    first = [is_forward for stage, is_forward, _ in order if stage == 0]
    assert first == [True] * 3 + [True, False] * 5 + [False] * 3


def test_every_kind_of_line_can_be_simulated() -> None:
    usual = [one for one in scenarios() if not is_job(one)]
    largest_first = sorted(usual, key=lambda one: -one.ranks)
    kinds = {(one.architecture, one.logged, one.fault): one for one in largest_first}
    for one in kinds.values():
        assert len(simulate(one._replace(steps=2), seed=0).timings)


# -- how a verdict is marked -----------------------------------------------------------------------


def said(verdict: str, *ranks: int, suspects: Any = (), judged: bool = True) -> Any:
    return SimpleNamespace(
        verdict=verdict, ranks=ranks, suspects=suspects, judged=judged, cost_ms=110.0, first_iteration=1,
        last_iteration=9,
    )  # fmt: skip


def suspect(*ranks: int, likelihood: float = 0.8) -> Any:
    return SimpleNamespace(ranks=ranks, operation="FORWARD", share=0.5, likelihood=likelihood)


def marks(verdict: Any, truth: Truth, n_ranks: int = 8) -> set[str]:
    outcome = judged(verdict, truth, n_ranks, cost_ms=100.0, run_ms=1000.0)
    return {name for name, value in vars(outcome).items() if value is True}


@pytest.mark.parametrize(
    ("verdict", "truth", "expected"),
    [
        (said("rank", 2), SLOW, {"exact"}),
        (said("rank", 2, 3), SLOW, {"wrong_name"}),
        (said("rank", 2), Truth("rank", frozenset({2, 5}), 0, 9), {"probable"}),
        (said("role", 2, 3), SLOW, {"wrong_name"}),
        (said("suspect", suspects=(suspect(2), suspect(3))), SLOW, {"probable"}),
        (said("suspect", 0, 1, 2, suspects=(suspect(0, 1, 2),)), SLOW, {"probable"}),
        (said("suspect", suspects=(suspect(0, 1, 2, 3),)), SLOW, set()),
        (said("suspect", suspects=(suspect(3), suspect(2))), SLOW, {"wrong_suspect"}),
        (said("healthy"), SLOW, set()),
        (said("healthy", judged=False), SLOW, {"not_judged"}),
        (said("diffuse"), SLOW, {"other"}),
        (said("healthy"), HEALTHY, {"exact"}),
        (said("healthy", judged=False), HEALTHY, {"not_judged"}),
        (said("rank", 1), HEALTHY, {"wrong_name", "false_alarm"}),
        (said("suspect", suspects=(suspect(1),)), HEALTHY, {"wrong_suspect", "false_alarm"}),
        (said("diffuse"), HEALTHY, {"other"}),
        (said("communication"), Truth("communication", frozenset({2}), 0, 9), {"exact"}),
        (said("communication", 2, 3), Truth("communication", frozenset({2}), 0, 9), {"exact"}),
        (said("communication", 5), Truth("communication", frozenset({2}), 0, 9), {"wrong_name"}),
        (said("rank", 2), Truth("communication", frozenset({2}), 0, 9), {"probable"}),
        (said("group-wide"), Truth("group-wide", frozenset(range(8)), 0, 9), {"exact"}),
        (said("rank", 2), Truth("group-wide", frozenset(range(8)), 0, 9), {"wrong_name"}),
    ],
)  # fmt: skip
def test_a_verdict_is_marked_as_the_page_says(verdict: Any, truth: Truth, expected: set[str]) -> None:
    assert marks(verdict, truth) == expected


def test_a_verdict_that_knows_no_suspects_is_marked_too() -> None:
    old = said("rank", 2)
    del old.suspects
    assert marks(old, SLOW) == {"exact"}


def test_errors_are_told_of_verdicts_that_are_right() -> None:
    outcome = judged(said("rank", 2), SLOW, 8, cost_ms=100.0)
    assert outcome.window_error_steps == 1
    assert outcome.cost_error == pytest.approx(0.1)
    assert np.isnan(judged(said("rank", 3), SLOW, 8, cost_ms=100.0).cost_error)


@pytest.mark.usefixtures("noiseless")
def test_a_right_verdict_and_both_rules_are_scored_on_one_run() -> None:
    run = run_of("data-parallel", "slow 100%", steps=20)
    outcome = scored(stragglers(run.timings), run)
    assert outcome.exact
    assert outcome.cost_error < 1e-6
    assert (outcome.nvrx_exact, outcome.least_exact) == (1.0, 1.0)


# -- many of them ----------------------------------------------------------------------------------


def outcome(**marked: Any) -> Outcome:
    nothing = dict.fromkeys(
        ("exact", "probable", "wrong_name", "wrong_suspect", "other", "false_alarm", "not_judged"), False
    )
    return Outcome(**{**nothing, **marked})


def test_suspects_are_counted_by_the_likelihood_that_they_were_given() -> None:
    line = Scenario("data-parallel", "all rows", "steady", "slow 20%", 8)
    found = [outcome(probable=True, likelihood=0.8)] * 3 + [outcome(wrong_suspect=True, likelihood=0.8)]
    (only,) = calibration({line: [*found, outcome(exact=True)]})
    assert (only.low, only.n, only.right) == (0.75, 4, 0.75)


def test_a_target_stands_as_its_worst_line_does() -> None:
    lines = {
        Scenario("data-parallel", "all rows", "steady", "slow 20%", ranks): [outcome(exact=exact)]
        for ranks, exact in ((8, True), (64, False))
    }
    named, wrong = standings(lines)
    assert (named.figure, named.is_met) == (0.0, False)
    assert "/ 64" in named.where
    assert wrong.is_met


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of which all figures are of two lines."""
    monkeypatch.setattr(page, "scenarios", lambda quick: [LINE, JOB])
    monkeypatch.delitem(page.PARTS, "speed")  # it takes seconds
    path = tmp_path / "page.md"
    marks = "".join(f"<!-- made: {name} -->\nold\n<!-- end -->\n" for name in page.PARTS)
    path.write_text(f"By hand.\n{marks}By hand, too.\n")
    return path


def test_the_page_keeps_what_was_written_by_hand_and_judges_all_lines_together(written: Path) -> None:
    for _ in range(2):
        page.write(written, {LINE: [outcome(exact=True)], JOB: [outcome(fine=0.0, wrong_name=True)]})
    text = written.read_text()
    assert text.startswith("By hand.\n<!-- made: worst line -->\n**In the worst of 2 lines")
    assert text.endswith("<!-- end -->\nBy hand, too.\n")
    assert "old" not in text
    assert "| wrong names | at most 0.2% | 0.0%, met |" in text
    assert text.count(f"| an innocent rank is named | {JOB} | 100% |") == 1
    assert tables.read_csv(tables.data_file(written, "names")) == [list(one) for one in page.names()]


def test_a_run_of_some_lines_replaces_these_in_the_data_and_leaves_the_page(written: Path) -> None:
    page.write(written, {LINE: [outcome(exact=True)], JOB: [outcome(fine=0.0)]})
    before = written.read_text()
    page.write(written, {JOB: [outcome(fine=1.0)] * 3})
    assert written.read_text() == before
    (line,), (job,) = (tables.read_csv(tables.data_file(written, name)) for name in ("lines", "jobs"))
    assert line[:9] == [*map(str, LINE), "1", "-", "100"]
    assert job[:10] == [*map(str, JOB), "3", "-", "0", "100"]


def test_the_page_has_all_parts_that_are_made_and_its_data_all_lines() -> None:
    path = ROOT / "docs" / "verdict-accuracy.md"
    made = [part["name"] for part in tables.MADE.finditer(path.read_text(encoding="utf-8"))]
    assert sorted(made) == sorted(page.PARTS)
    files = [tables.read_csv(tables.data_file(path, name)) for name in ("lines", "jobs")]
    tried = {tuple(row[:6]) for rows in files for row in rows}
    assert {tuple(map(str, one)) for one in scenarios(quick=True)} <= tried
    assert tried <= {tuple(map(str, one)) for one in scenarios()}
    assert tables.read_csv(tables.data_file(path, "names")) == [list(one) for one in page.names()]
