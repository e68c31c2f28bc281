"""What one rank does in few steps, and delays that all ranks have in turn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from seeds import seeds
from simulated_runs import OPERATIONS_MS, data_parallel, factors

from timing_logger.analysis import Verdict, stragglers
from timing_logger.words.not_told import reason

Factors = npt.NDArray[np.float64]

SAVE_MS = 300.0


def saving(every: int, *, operation: str = "SAVE") -> pd.DataFrame:
    """Return a run in which rank 3 of 8 takes 300 ms more in some of 200 steps, in a SAVE of its own."""
    factor = np.zeros((200, 8))
    factor[every::every, 3] = 1.0
    operations_ms = {"SAVE": SAVE_MS, **OPERATIONS_MS}
    rows = data_parallel(factor, operations_ms=operations_ms, slow_operations=["SAVE"], noise=0.03)
    did = (rows["operation"] != "SAVE") | (rows["elapsed_ms"] > 0)
    return rows[did & ((rows["operation"] != "SAVE") | (operation == "SAVE"))].reset_index(drop=True)


def judged(rows: pd.DataFrame) -> tuple[str, tuple[int, ...], str, int]:
    verdict = stragglers(rows)
    return verdict.verdict, verdict.ranks, verdict.operation, verdict.slow_steps


@pytest.mark.parametrize(
    ("every", "n_saves"),
    [
        (70, 2),
        pytest.param(20, 9, marks=pytest.mark.slow("two are enough")),
        pytest.param(40, 4, marks=pytest.mark.slow("two are enough")),
    ],
)
def test_a_rank_that_alone_saves_is_named_with_what_it_costs(every: int, n_saves: int) -> None:
    verdict = stragglers(saving(every))
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (3,), "SAVE")
    assert verdict.slow_steps == n_saves
    assert verdict.cost_ms == pytest.approx(n_saves * SAVE_MS, rel=0.02)


@pytest.mark.slow("test_candidates_gates.py has what a rank does alone once")
def test_one_save_may_be_the_start_of_the_run() -> None:
    assert stragglers(saving(150)).ranks == ()


@pytest.mark.slow("test_slow_steps_found.py has the chance of single steps")
def test_saves_that_are_not_timed_are_named_if_chance_would_not_have_them_all_on_one_rank() -> None:
    assert judged(saving(33, operation="")) == ("rank", (3,), "UNLOGGED", 6)


@pytest.mark.slow("test_slow_steps_found.py has the chance of single steps")
def test_a_rank_is_suspected_of_saves_that_chance_would_seldom_have_on_one_rank() -> None:
    verdict = stragglers(saving(40, operation=""))
    assert (verdict.verdict, verdict.ranks_to_look_at, verdict.slow_steps) == ("suspect", (3,), 4)
    assert 0.9 < verdict.suspects[0].likelihood <= 1 - 8**-3


@pytest.mark.slow("test_slow_steps_found.py has the chance of single steps")
def test_fewer_saves_that_are_not_timed_are_told_of_and_not_named() -> None:
    verdict = stragglers(saving(50, operation=""))
    assert (verdict.verdict, verdict.judged) == ("healthy", False)
    assert "for rank 3" in reason(verdict.why)


@pytest.mark.slow("test_slow_steps_found.py has very slow steps among slow ones")
def test_saves_are_found_among_small_delays_that_all_ranks_have() -> None:
    factor = factors(200, 8, 0.03)
    factor[np.arange(200), np.arange(200) % 8] *= 1.5
    factor[20::20, 3] = 10.0
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.ranks, verdict.slow_steps) == ("rank", (3,), 9)


def paused(seed: int) -> Factors:
    """Return factors of 8 ranks that are delayed in three of ten steps each, for 35 ms on average."""
    rng = np.random.default_rng(seed)
    delayed = rng.random((200, 8)) < 0.3
    return factors(200, 8, 0.03, seed) + delayed * rng.exponential(1.0, (200, 8))


@pytest.mark.parametrize("seed", seeds(10))
def test_no_rank_of_a_busy_machine_is_named(seed: int) -> None:
    verdict: Verdict = stragglers(data_parallel(paused(seed)))
    assert (verdict.verdict, verdict.ranks) == ("diffuse", ())


@pytest.mark.slow("of such a machine, no rank is named in the test above")
@pytest.mark.parametrize("seed", seeds(10))
def test_no_rank_is_named_beside_the_slow_one_of_a_busy_machine(seed: int) -> None:
    factor = paused(seed)
    factor[:, 5] += 0.6
    assert stragglers(data_parallel(factor)).ranks == (5,)


def test_an_idle_rank_does_not_hide_a_slow_one() -> None:
    factor = factors(100, 8, 0.03)
    factor[:, 0] = 10.0
    factor[:, 1] = 0.005
    assert judged(data_parallel(factor))[:2] == ("rank", (0,))


@pytest.mark.slow("more random runs in which all is clear")
@pytest.mark.parametrize("seed", seeds(10))
def test_a_rank_a_hundred_times_slower_is_named_however_much_its_quick_peer_varies(seed: int) -> None:
    """Of two ranks on a busy machine one sleeps for 10 ms; the other is delayed for 4 ms now and then."""
    rng = np.random.default_rng(seed)
    factor = np.exp(rng.normal(0, 0.1, (60, 2))) * (0.1, 10.0)
    factor[:, 0] += 4.0 * (rng.random(60) < 0.2)
    verdict = stragglers(data_parallel(factor, operations_ms={"WORK": 1.0, "END": 0.01}))
    assert (verdict.verdict, verdict.ranks, verdict.window) == ("rank", (1,), "persistent")
