"""Who probably is slow where nobody is certain; and what is not understood is not called healthy."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from policy_runs import apart
from rank_tables import as_polars
from seeds import seeds
from simulated_runs import data_parallel, factors, on_hosts, pipeline
from slow import slow
from timing_files import write_table

from timing_logger.analysis import Verdict, stragglers
from timing_logger.analysis.step_times.noise import likelihood_above_0
from timing_logger.cli import main
from timing_logger.report import evidence_sentences, verdict_json, verdict_sentence
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._verdict import judgement
from timing_logger.results.facts import FewSteps, RolesMayWait
from timing_logger.words.not_told import reason

SEED = 7


@functools.cache
def unequal_peers(seed: int) -> pd.DataFrame:
    """Rank 1 of three takes twice the time of rank 0, and rank 2 15% more than that."""
    return data_parallel(factors(60, 3, noise=0.03, seed=seed) * [1.0, 2.0, 1.15])


@functools.cache
def verdict_on_unequal_peers(seed: int) -> Verdict:
    return stragglers(unequal_peers(seed))


@functools.cache
def verdict_on_healthy(ranks: int) -> Verdict:
    return stragglers(data_parallel(factors(200, ranks, noise=0.1), noise=0.05))


# -- probably ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [SEED, *(slow(seed, "more random runs of the same kind") for seed in range(5))]
)
def test_the_slow_rank_among_unequal_peers_is_probably_it_though_not_for_certain(seed: int) -> None:
    verdict = verdict_on_unequal_peers(seed)
    assert (verdict.verdict, verdict.ranks) == ("suspect", ())
    assert verdict.suspects[0].ranks == (1,)
    assert verdict.suspects[0].operation == "BACKWARD"
    assert verdict.suspects[0].likelihood == 1.0
    assert verdict.suspects[0].share > 0.8
    assert verdict.cost_share == pytest.approx(0.85 * 35 / 72, abs=0.03)


def test_a_named_rank_is_the_first_suspect_and_likely() -> None:
    factor = factors(60, 8, noise=0.05)
    factor[:, [1, 6]] *= [1.5, 1.6]
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, set(verdict.ranks)) == ("rank", {1, 6})
    assert [suspect.ranks for suspect in verdict.suspects] == [(6,), (1,)]
    assert {suspect.likelihood for suspect in verdict.suspects} == {1.0}


def test_a_healthy_run_suspects_nobody() -> None:
    assert verdict_on_healthy(4).suspects == ()


@pytest.mark.slow("test_verdict.py compares whole verdicts on tables of both libraries")
def test_likelihoods_are_the_same_every_time_and_of_any_table() -> None:
    assert verdict_on_unequal_peers(SEED).suspects == stragglers(as_polars(unequal_peers(SEED))).suspects


@pytest.mark.slow("test_culprits.py has the likelihood of one beside its rival")
def test_where_two_are_slow_by_nearly_as_much_neither_is_much_likelier() -> None:
    factor = factors(120, 3, noise=0.1, seed=2)
    factor[:60, 0] *= 1.5
    factor[60:, 1] *= 1.5
    likelihoods = [suspect.likelihood for suspect in stragglers(data_parallel(factor)).suspects]
    assert max(likelihoods) < 0.9
    assert min(likelihoods) > 0.1


def test_the_likelihood_is_that_of_drawing_stretches_of_the_run() -> None:
    rng = np.random.default_rng(5)
    of_steps = np.where(rng.random(100) < 0.15, 3.0, -0.3) + rng.normal(0, 0.2, 100)
    starts = rng.integers(0, 100, (20_000, 10))
    drawn = of_steps[(starts[:, :, None] + np.arange(10)) % 100].sum(axis=(1, 2)) > 0
    assert likelihood_above_0(of_steps) == pytest.approx(drawn.mean(), abs=0.01)
    assert 0.5 < drawn.mean() < 0.95


# -- cost ------------------------------------------------------------------------------------------------


@pytest.mark.slow("test_candidates_gates.py has the gates of cost")
def test_a_rank_that_costs_less_than_a_hundredth_of_the_run_is_listed_and_not_named() -> None:
    factor = factors(1000, 4, noise=0.03)
    factor[400:425, 3] *= 1.3
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.ranks) == ("healthy", ())
    assert verdict.suspects[0].ranks == (3,)
    assert verdict.suspects[0].likelihood < 0.5


@pytest.mark.slow("test_verdict_costs.py has which part of a run a cost is")
def test_the_cost_is_told_as_a_part_of_the_run() -> None:
    factor = factors(100, 4)
    factor[:, 2] = 2.0
    verdict = stragglers(data_parallel(factor))
    assert verdict.cost_share == pytest.approx(35 / 71.5, abs=0.02)


# -- fewer steps, if they cost more -------------------------------------------------------------------


@pytest.mark.slow("test_candidates_gates.py has how few steps are enough for what they cost")
@pytest.mark.parametrize("seed", seeds(5))
def test_costly_pauses_in_few_steps_are_enough(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = factors(60, 8, noise=0.03, seed=seed)
    factor[:, 3] += 2.0 * (rng.random(60) < 0.3)
    assert stragglers(data_parallel(factor)).ranks == (3,)


@pytest.mark.slow("test_candidates_gates.py has the lesser bound beside another")
@pytest.mark.parametrize("seed", seeds(5))
def test_of_two_slow_ranks_the_lesser_one_is_named_too(seed: int) -> None:
    factor = factors(200, 8, noise=0.03, seed=seed)
    factor[:, [2, 5]] *= [1.2, 1.1]
    assert stragglers(data_parallel(factor)).ranks == (2, 5)


@pytest.mark.slow("test_culprits.py has how many ranks are too many")
@pytest.mark.parametrize("seed", seeds(3))
def test_half_of_a_host_is_named(seed: int) -> None:
    factor = factors(100, 64, noise=0.03, seed=seed)
    factor[:, 16:24] *= 1.15
    assert set(stragglers(data_parallel(factor)).ranks) == set(range(16, 24))


@pytest.mark.slow("test_windows.py has the error of a level where noise has a memory")
@pytest.mark.parametrize("memory", [0.95, 0.97])
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_drift_are_not_named(seed: int, ranks: int, memory: float) -> None:
    """Each is slower than its peers for long, and then quicker for as long."""
    factor = factors(200, ranks, noise=0.1, seed=seed, memory=memory)
    assert stragglers(data_parallel(factor, noise=0.03, seed=seed)).ranks == ()


# -- ranks that act as one ----------------------------------------------------------------------------


def in_lockstep(factor: npt.NDArray[np.float64], size: int, seed: int = 0) -> pd.DataFrame:
    """Groups of ``size`` ranks reduce inside their work, which is not logged: all wait for the slowest."""
    slowest = factor.reshape(len(factor), -1, size).max(axis=2)
    return data_parallel(np.repeat(slowest, size, axis=1), noise=0.003, seed=seed)


@pytest.mark.slow("test_lockstep.py has what ties such ranks, and the sentence on such a run is below")
@pytest.mark.parametrize("seed", range(5))
def test_of_ranks_that_wait_for_each_other_unseen_one_is_suspected_and_none_named(seed: int) -> None:
    factor = factors(100, 24, noise=0.05, seed=seed)
    factor[:, 5] *= 1.5
    verdict = stragglers(in_lockstep(factor, 4, seed))
    assert (verdict.verdict, verdict.ranks) == ("suspect", ())
    assert verdict.suspects[0].ranks == (4, 5, 6, 7)
    unseen = "wait for each other in something that is not logged"
    assert any(unseen in sentence for sentence in evidence_sentences(verdict))


@pytest.mark.slow("test_lockstep.py has ranks that are as slow and vary by themselves")
@pytest.mark.parametrize("seed", seeds(5))
def test_two_ranks_slow_by_the_same_factor_are_two(seed: int) -> None:
    factor = factors(100, 24, noise=0.05, seed=seed)
    factor[:, [4, 5]] *= 1.5
    assert set(stragglers(data_parallel(factor)).ranks) == {4, 5}


# -- roles by their rows ------------------------------------------------------------------------------


@functools.cache
def last_stage_slower(seed: int, times: float = 1.4) -> tuple[pd.DataFrame, Mapping[int, str]]:
    factor = factors(40, 12, noise=0.03, seed=seed)
    factor[:, 9:] *= times
    return pipeline(factor, stages=4)


@pytest.mark.slow("test_systemic.py has slow roles, and test_verdict.py a run with such a stage")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("logged", ["all", "no messages"])
def test_a_slower_stage_is_a_role_also_without_the_messages(logged: str, seed: int) -> None:
    timings, roles = last_stage_slower(seed)
    chosen = timings if logged == "all" else timings[timings["operation"] != "RECV"]
    verdict = stragglers(chosen, roles=roles)
    assert (verdict.verdict, verdict.labels, verdict.ranks) == ("role", "stage 3", (9, 10, 11))


@pytest.mark.slow("test_verdict_coverage_by_hand.py has roles that may wait for each other")
def test_a_slower_stage_of_which_only_reductions_are_logged_is_not_judged() -> None:
    """Messages that are not logged hold all stages up alike."""
    timings, roles = last_stage_slower(0)
    verdict = stragglers(timings[timings["operation"] == "REDUCE_SCATTER"], roles=roles)
    assert (verdict.verdict, verdict.judged) == ("healthy", False)
    assert verdict.why == RolesMayWait()


@pytest.mark.slow("test_systemic.py has rows that hide waiting")
@pytest.mark.parametrize("seed", seeds(3))
def test_a_name_that_hides_waiting_hides_no_slower_stage(seed: int) -> None:
    """Clipping all-reduces the norm inside its row: it is long on everybody but the slow stage."""
    timings, roles = last_stage_slower(seed, times=1.5)
    work = timings[timings["operation"].isin(["FORWARD", "BACKWARD"])]
    worked_ms = work.groupby(["iteration", "rank"])["elapsed_ms"].sum()
    waited_ms = worked_ms.groupby("iteration").transform("max") - worked_ms + 1.0
    clipping = timings[timings["operation"] == "REDUCE_SCATTER"].set_index(["iteration", "rank"])
    clipping = clipping.assign(operation="CLIP_GRADIENTS", group="", seq=pd.NA, elapsed_ms=waited_ms)
    rows = clipping.reset_index()[timings.columns].astype(timings.dtypes)
    both = pd.concat([timings, rows], ignore_index=True).assign(start_counter=np.nan, end_counter=np.nan)
    verdict = stragglers(both, roles=roles)
    assert (verdict.verdict, verdict.labels) == ("role", "stage 3")


@pytest.mark.slow("test_systemic.py has the operations that all roles have")
def test_stages_that_do_different_things_are_no_slow_role() -> None:
    timings, roles = pipeline(factors(60, 12, noise=0.03), stages=4)
    first = (timings["rank"] < 3) & (timings["operation"] == "FORWARD")
    named = timings.assign(operation=timings["operation"].where(~first, "EMBED"))
    assert stragglers(named, roles=roles).verdict == "healthy"


# -- what is not understood ---------------------------------------------------------------------------


@pytest.mark.slow("test_verdict_coverage_by_hand.py has the rank for which most is waited")
def test_a_rank_too_little_slow_to_be_suspected_for_which_all_wait_visibly_leaves_no_healthy_run() -> None:
    factor = factors(200, 4, noise=0.005)
    factor[:, 1] *= 1.07
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.ranks, verdict.judged) == ("healthy", (), False)
    why = reason(verdict.why)
    assert "of all waiting was for rank 1, and the run would be 6% shorter" in why
    assert why.endswith("but it is slower by too little or in too few steps to name it")


@pytest.mark.slow("test_candidates_gates.py has who is suspected though slow by little")
def test_a_costly_rank_that_is_a_little_slow_is_probably_it() -> None:
    factor = factors(200, 4, noise=0.005)
    factor[:, 1] *= 1.10
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.ranks, verdict.suspects[0].ranks) == ("suspect", (), (1,))


@pytest.mark.parametrize("ranks", [4, *(slow(ranks, "as of four ranks") for ranks in (2, 16))])
def test_a_healthy_run_is_judged(ranks: int) -> None:
    verdict = verdict_on_healthy(ranks)
    assert (verdict.verdict, verdict.judged) == ("healthy", True)


# -- what is said --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_table(tmp_path_factory.mktemp("run"), unequal_peers(SEED)))


@pytest.fixture(scope="module")
def answer(folder: str) -> tuple[int, str]:
    """The exit code and the text of a command that fails for a named rank."""
    with redirect_stdout(io.StringIO()) as text:
        exit_code = main(["stragglers", folder, "--fail-on", "rank"])
    return exit_code, " ".join(text.getvalue().split())


def test_the_text_says_probably_and_at_what_cost(answer: tuple[int, str]) -> None:
    _, said = answer
    assert said.startswith("Verdict: probably rank 1 costs this run 1.78 s, 42% of the recorded time.")
    assert "throughout (iterations 0 to 59), in BACKWARD. Not certain: z among the peers is below" in said


def test_the_json_has_the_suspects() -> None:
    verdict = verdict_on_unequal_peers(SEED)
    found = json.loads(verdict_json(verdict, unequal_peers(SEED).head(0)))
    assert (found["verdict"], found["ranks"]) == ("suspect", [])
    assert found["suspects"][0]["ranks"] == [1]
    assert set(found["suspects"][0]) == {"ranks", "operation", "share", "likelihood"}
    assert 0.4 < found["cost_share"] < 0.5


def test_a_suspect_is_no_named_rank_to_a_script(answer: tuple[int, str]) -> None:
    exit_code, _ = answer
    assert exit_code == 0


@pytest.mark.slow("test_questions.py has a command that fails for the verdict that it names")
@pytest.mark.parametrize("fail_on", ["suspect", "rank,suspect"])
def test_a_script_can_fail_on_suspects(folder: str, fail_on: str) -> None:
    assert main(["stragglers", folder, "--fail-on", fail_on]) == 1


@pytest.mark.slow("test_verdict.py has the headlines, and the text above says the same")
def test_the_page_says_probably() -> None:
    shown = judgement(Findings.of(unequal_peers(SEED)))
    assert "Probably rank 1 costs this run 1.78 s, 42% of the recorded time." in shown.headline
    assert shown.kind == "suspect"  # which the page has as a class


def test_ranks_that_act_as_one_are_told_as_one() -> None:
    factor = factors(60, 12, noise=0.05)
    factor[:, 5] *= 1.5
    said = verdict_sentence(stragglers(on_hosts(in_lockstep(factor, 4), size=12)))
    assert (
        "probably one of ranks 4 to 7, which wait for each other in something that is not logged, costs"
        in said
    )


@pytest.mark.slow("test_own_times.py has when steps are few")
def test_few_steps_are_counted_whether_or_not_the_slow_rank_was_slow_in_them() -> None:
    slow = factors(18, 4, noise=0.02)
    slow[6:, 2] *= 3
    assert FewSteps(18, nobody_is_slow=False) in stragglers(data_parallel(slow)).evidence


@pytest.mark.slow(
    "test_candidates_gates.py has who is suspected if others wait for a part; test_pricing.py what it costs"
)
def test_a_slow_rank_that_others_wait_for_by_a_part_of_its_delay_costs_what_they_waited() -> None:
    """The groups never meet, so it is not known who of the other group would have waited."""
    timings, _ = apart(13, 15.5, 13, 13, 10, 10, 10, 10)()
    verdict = stragglers(timings)
    assert (verdict.verdict, verdict.ranks_to_look_at) == ("suspect", (1,))
    assert verdict.cost_ms == pytest.approx(40 * 2.5)
