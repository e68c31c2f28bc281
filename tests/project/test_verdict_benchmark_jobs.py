"""The simulation of jobs whose steps differ is right: waits, truth, rows, and how verdicts are marked."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from slow import slow
from verdict_accuracy import simulation
from verdict_accuracy.architectures import data_parallel
from verdict_accuracy.claims import claims
from verdict_accuracy.faults import Fault, Place, Truth
from verdict_accuracy.jobs import JOBS
from verdict_accuracy.jobs.groups import CHUNKS, interleaved_order
from verdict_accuracy.kinds import kinds
from verdict_accuracy.rank_program import RankProgram
from verdict_accuracy.reach import made_with, reached
from verdict_accuracy.scoring import Outcome, judged
from verdict_accuracy.simulation import Scenario, SimulatedRun, simulate
from verdict_accuracy.timeline import Conditions, Timeline

from timing_logger.analysis import message_waits
from timing_logger.analysis.rows.operations import is_communication, is_own_work, synchronises_all_ranks

pytestmark = pytest.mark.slow("of a benchmark: make test-deep runs it where that changes")

SLOW = Truth("rank", frozenset({2}), 0, 9)
RANKS = 8


def run_of(
    job: str, fault: str = "slow 30%", *, logged: str = "all rows", noise: str = "steady", steps: int = 60,
    ranks: int = RANKS,
) -> SimulatedRun:  # fmt: skip
    return simulate(Scenario(job, logged, noise, fault, ranks, steps), seed=1)


# -- waits -----------------------------------------------------------------------------------------


def one_step(rng: np.random.Generator, ranks: int = 4, steps: int = 3) -> Conditions:
    usual = np.ones((2, steps, ranks))
    return Conditions(rng.uniform(1, 2, usual.shape), 0 * usual, usual, usual, 0 * usual)


def test_the_rows_of_free_steps_are_those_of_equal_steps_if_the_steps_are_equal() -> None:
    tables = []
    for kind in (Timeline, RankProgram):
        rng = np.random.default_rng(3)
        run = kind(one_step(rng), rng)
        data_parallel(run, halo=True)
        tables.append(run.rows.table(lambda *_: True, np.zeros(4)))
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize("job", JOBS)
def test_no_rank_leaves_a_collective_before_the_last_one_has_come(job: str) -> None:
    rows = run_of(job, steps=12).timings
    rows = rows[rows["operation"].map(synchronises_all_ranks)]
    calls = rows.groupby(["group", "seq"])
    assert (calls.size() == calls["group_size"].first()).all()
    assert (calls["end_s"].min() >= calls["start_s"].max()).all()


@pytest.mark.parametrize("job", ["training", "evaluation", "short steps", "accumulation", "local SGD"])
def test_the_rows_of_a_rank_fill_its_time(job: str) -> None:
    run = run_of(job)
    for _, rows in run.timings.groupby("rank"):
        assert np.allclose(rows["start_s"].iloc[1:], rows["end_s"].iloc[:-1])
        assert rows["elapsed_ms"].sum() <= run.run_ms + 1e-6
    assert run.timings["end_s"].max() == pytest.approx(run.run_ms / 1000)


@pytest.mark.parametrize("one", list({one[0]: one for one in kinds() if one.ranks <= 32}.values()), ids=str)
def test_the_twin_of_a_run_is_the_run_without_the_effect_of_its_fault(
    one: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = one._replace(steps=min(one.steps, 10))
    faulty, original = simulate(one, seed=1), simulation.FAULTS[one.fault]

    def without_effect(rng: np.random.Generator, place: Place) -> Fault:
        return replace(Fault.none(place), truth=original(rng, place).truth)

    monkeypatch.setitem(simulation.FAULTS, one.fault, without_effect)
    twin = simulate(one, seed=1)
    assert twin.cost_ms == 0
    assert twin.run_ms == pytest.approx(faulty.run_ms - faulty.cost_ms)


def test_others_wait_for_the_root_of_a_broadcast_and_the_root_of_a_reduction_for_the_others() -> None:
    run = run_of("rooted", "slow 30%", steps=5)
    first = run.timings[run.timings["seq"] < 3]
    calls = {name: rows.set_index("rank") for name, rows in first.groupby("operation")}
    reduced, sent = calls["REDUCE"], calls["BCAST"]
    assert reduced["end_s"][0] > reduced["start_s"].max()
    assert reduced["elapsed_ms"].drop(0).max() < 2.0
    assert sent["end_s"].min() > sent["start_s"][0]
    assert sent["elapsed_ms"][0] < 1.0


def test_an_interleaved_stage_does_each_chunk_of_each_micro_batch_once_each_way() -> None:
    order = interleaved_order(4, 8)
    assert len(order) == len(set(order)) == 4 * CHUNKS * 8 * 2
    last = [turn for stage, turn in order if stage == 3]
    assert [turn.is_forward for turn in last[:6]] == [True] * 5 + [False]
    assert [turn.chunk for turn in last[:4]] == [0] * 4


@pytest.mark.parametrize(
    ("job", "messages"), [("interleaved", 2 * 7 * 8 * 2), ("ring", 2 * 7 * 8), ("coupled", 2)]
)
def test_every_message_is_received(job: str, messages: int) -> None:
    waits = message_waits(run_of(job, "healthy", steps=3).timings)
    assert len(waits) == 3 * messages
    assert (waits["receive_ms"] >= 0).all()


def test_a_master_answers_all_workers_one_after_the_other_and_all_tasks_are_done() -> None:
    rows = run_of("farm", "slow 100%", logged="no iterations").timings
    master = rows[rows["rank"] == 0]
    assert (master["start_s"].iloc[1:].to_numpy() >= master["end_s"].iloc[:-1].to_numpy() - 1e-9).all()
    asked = rows[(rows["operation"] == "SEND") & (rows["rank"] > 0)]
    assert len(asked) == 60 * (RANKS - 1) + RANKS - 1


def test_operations_in_the_background_come_one_after_the_other_and_each_is_waited_for_once() -> None:
    run = run_of("overlapped", "slow 30%", steps=3)
    rows = run.timings[run.timings["rank"] == 0]
    issued, waits = (rows[rows["operation"] == name] for name in ("IALLREDUCE", "WAIT"))
    assert issued["seq"].tolist() == waits["seq"].tolist() == list(range(30))
    assert (waits["end_s"].to_numpy() >= issued["end_s"].to_numpy() - 1e-9).all()
    assert (np.diff(issued["end_s"]) > 0).all()


def test_a_hot_expert_has_more_tokens_and_so_more_work_but_no_slower_hardware() -> None:
    run = run_of("experts", "hot expert", steps=20)
    (hot,) = run.truth.ranks
    of = run.timings.groupby(["operation", "rank"])["elapsed_ms"].mean()
    tokens = run.timings[run.timings["operation"] == "ALLTOALL"]
    sizes = tokens.groupby("rank")["message_size_bytes"].max()
    assert of["EXPERT"][hot] > 1.3 * of["EXPERT"].drop(hot).max()
    assert of["ATTENTION"][hot] == pytest.approx(of["ATTENTION"].mean(), rel=0.03)
    assert sizes[hot] > 1.3 * sizes.drop(hot).max()


# -- the truth -------------------------------------------------------------------------------------


SMALL = [one for one in kinds() if one.ranks <= 32]
OF_EACH_FAULT = {one.fault: one for one in SMALL}.values()
OF_EACH_JOB_AND_FAULT = {(one.architecture, one.fault): one for one in SMALL}.values()


@pytest.mark.parametrize(
    "one",
    [one if one in OF_EACH_FAULT else slow(one, "its fault in another job") for one in OF_EACH_JOB_AND_FAULT],
    ids=str,
)
def test_every_fault_costs_time_and_every_healthy_run_none(one: Scenario) -> None:
    run = simulate(one._replace(steps=min(one.steps, 45)), seed=1)
    assert (run.cost_ms > 0) == (one.fault != "healthy") == (run.truth.kind != "healthy")


@pytest.mark.parametrize(
    "fault",
    [
        "slow 30%",
        "3 slow 30%",
        "sawtooth",
        "every 10th step",
        "ramp to 30%",
        "20% in 20 steps",
        "half of all",
    ],
)
def test_culprits_work_longer_than_the_others_in_the_steps_of_the_truth_and_in_no_other(fault: str) -> None:
    run = run_of("training", fault, steps=100)
    assert run.self_ms is not None
    culprits = sorted(run.truth.ranks)
    others = [rank for rank in range(RANKS) if rank not in run.truth.ranks]
    excess = run.self_ms[:, culprits].mean(axis=1) / run.self_ms[:, others].mean(axis=1) - 1
    inside = slice(run.truth.first, run.truth.last + 1)  # type: ignore[operator]
    outside = np.delete(excess, np.arange(100)[inside])
    assert excess[inside].mean() > 0.05
    assert not len(outside) or abs(outside.mean()) < 0.03


def test_only_rank_0_saves_and_only_in_the_steps_of_the_truth() -> None:
    run = run_of("training", "saves", steps=130)
    saves = run.timings[run.timings["operation"] == "SAVE"]
    assert set(saves["rank"]) == run.truth.ranks == {0}
    assert saves["iteration"].tolist() == [25, 75, 125]
    assert run.cost_ms == pytest.approx(saves["elapsed_ms"].sum(), rel=0.1)
    assert run.truth.operation == "SAVE"


def test_a_save_that_is_not_logged_leaves_no_row_and_lies_between_rows() -> None:
    run = run_of("training", "saves", logged="no saves")
    assert "SAVE" not in set(run.timings["operation"])
    assert run.truth.operation == "UNLOGGED"


def test_ranks_that_join_have_rows_in_the_second_half_only_and_ranks_that_leave_in_the_first() -> None:
    for job, seen in (("ranks join", range(30, 60)), ("ranks leave", range(30))):
        rows = run_of(job, "healthy").timings
        assert set(rows.loc[rows["rank"] >= RANKS // 2, "iteration"]) == set(seen)
        assert set(rows.loc[rows["rank"] < RANKS // 2, "iteration"]) == set(range(60))


# -- what is logged --------------------------------------------------------------------------------


def test_a_sampled_run_costs_what_the_whole_run_loses() -> None:
    sampled = run_of("training", logged="every 10th step")
    assert set(sampled.timings["iteration"]) == set(range(0, 60, 10))
    lasted_ms = 1000 * sampled.timings.groupby("iteration")["end_s"].max().max()
    assert sampled.run_ms > 1.1 * lasted_ms
    assert sampled.cost_ms == pytest.approx(60 * 0.3 * 90, rel=0.4)


def test_rows_without_iterations_are_of_communication() -> None:
    rows = run_of("training", logged="no iterations").timings
    assert rows["iteration"].isna().all()
    assert rows["operation"].map(is_communication).all()


def test_hosts_are_known_where_a_host_is_slow() -> None:
    run = run_of("training", "host", ranks=32)
    hosts = {file["rank"]: file["sidecar"]["host"] for file in run.timings.attrs["files"]}
    assert len({hosts[rank] for rank in run.truth.ranks}) == 1
    assert len(hosts) == 32


def test_on_devices_the_rows_of_work_contain_the_waits_for_others() -> None:
    run = run_of("devices", "slow 30%")
    rows = run.timings[run.timings["clock"] == "device"]
    (slow,) = run.truth.ranks
    of = rows.groupby(["operation", "rank"])["elapsed_ms"].mean()
    assert of["FORWARD"][slow] > 1.2 * of["FORWARD"].drop(slow).mean()
    assert of["BACKWARD"][slow] < of["BACKWARD"].drop(slow).min()
    assert rows["operation"].map(is_own_work).any()


# -- how a claim is marked -------------------------------------------------------------------------


def said(verdict: str, *ranks: int, **others: Any) -> Any:
    from timing_logger.analysis import Verdict
    from timing_logger.results.verdict import Suspect

    likelihood = others.pop("likelihood", 1.0)
    suspects = (Suspect(ranks, "FORWARD", 1.0, likelihood),) if ranks else ()
    named = ranks if verdict != "suspect" else ()
    return Verdict(verdict=verdict, ranks=named, suspects=suspects, **{"cost_ms": 100.0, **others})  # type: ignore[arg-type]


def claimed(verdict: Any, truth: Truth = SLOW, cost_ms: float = 100.0) -> dict[str, float]:
    run: Any = SimpleNamespace(truth=truth, n_ranks=RANKS, cost_ms=cost_ms, run_ms=1000.0)
    return claims(verdict, run, judged(verdict, truth, RANKS, cost_ms, 1000.0))


def test_certain_counts_as_wrong_only_if_an_innocent_is_named() -> None:
    assert claimed(said("rank", 2))["certain_right"] == 1
    assert claimed(said("rank", 2, 3))["certain_wrong"] == 1
    unsure = claimed(said("rank", 3, likelihood=0.9))
    assert (unsure["certain_wrong"], unsure["stated"], unsure["stated_right"]) == (0, 0.9, 0)


def test_a_verdict_is_silent_if_it_finds_nothing_and_explains_nothing_of_a_large_fault() -> None:
    assert claimed(said("healthy"))["silent"] == 1
    assert claimed(said("healthy", not_explained=0.1))["silent"] == 0
    assert claimed(said("healthy", lost_in_turn=0.1))["silent"] == 0
    assert claimed(said("healthy", judged=False))["silent"] == 0
    assert np.isnan(claimed(said("healthy"), cost_ms=40.0)["silent"])
    assert np.isnan(claimed(said("healthy"), Truth("healthy"), 0.0)["silent"])


def test_what_is_acceptable_is_fine_unless_an_innocent_is_named() -> None:
    half = Truth("role", frozenset({0, 1, 2, 3}), 0, 9, frozenset({"diffuse", "not judged", "rank"}))
    for verdict in (
        said("diffuse"),
        said("healthy", judged=False),
        said("rank", 0, 1),
        said("role", 0, 1, 2, 3),
    ):
        assert claimed(verdict, half)["fine"] == 1
    for verdict in (said("healthy"), said("rank", 0, 7)):
        assert claimed(verdict, half)["fine"] == 0
    assert claimed(said("healthy"), SLOW, cost_ms=5.0)["fine"] == 1


def test_a_stated_cost_counts_if_exactly_the_culprits_are_named() -> None:
    found = claimed(said("rank", 2, cost_ms=45.0))
    assert (found["cost_ratio"], found["cost_near"], found["cost_far"]) == (0.45, 0, 1)
    assert claimed(said("suspect", 2, cost_ms=95.0))["cost_near"] == 1
    assert np.isnan(claimed(said("rank", 2, 3))["cost_ratio"])
    slow_link = Truth("communication", frozenset({2}), 0, 9)
    assert np.isnan(claimed(said("communication", cost_ms=0.0), slow_link)["cost_ratio"])


# -- all lines -------------------------------------------------------------------------------------


def outcome(**marked: Any) -> Outcome:
    nothing = dict.fromkeys(
        ("exact", "probable", "wrong_name", "wrong_suspect", "other", "false_alarm", "not_judged"), False
    )
    return Outcome(**{**nothing, **marked})


USUAL = Scenario("data-parallel", "all rows", "steady", "slow 20%", 8)
JOB = Scenario("training", "all rows", "steady", "slow 20%", 8)


def test_goals_are_reached_over_all_lines_or_over_those_of_their_kind() -> None:
    results = {USUAL: [outcome(fine=0.0, certain_wrong=1.0)], JOB: [outcome(fine=1.0, certain_wrong=0.0)]}
    figures = {goal.words: figure for goal, figure in reached(results)}
    assert figures["an innocent named for certain, all runs"] == 50.0
    assert figures["right or acceptable, mean of the kinds of jobs"] == 100.0
    assert "2 lines with 1 runs each" in made_with(results)
