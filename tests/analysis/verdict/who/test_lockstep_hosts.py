"""A host is named where all its ranks are slow in the same steps, and no other ranks."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from seeds import seeds
from simulated_runs import data_parallel, factors, of_operations, on_hosts

from timing_logger.analysis import Verdict, stragglers
from timing_logger.report import evidence_sentences
from timing_logger.words.verdict import headline

Floats = npt.NDArray[np.float64]

NODE1 = tuple(range(8, 16))


def stalled(
    ranks: int, stalled: slice, share: float = 0.4, *, by_ms: float = 40.0, seed: int = 0
) -> pd.DataFrame:
    """Return a run some of whose ranks get their batches late, all in the same steps."""
    rng = np.random.default_rng(seed)
    ms = {"DATA": 2.0, "FORWARD": 10.0, "BACKWARD": 20.0, "OPTIMIZER": 3.0}
    times_ms = {name: usual * np.exp(rng.normal(0.0, 0.05, (120, ranks))) for name, usual in ms.items()}
    times_ms["DATA"][:, stalled] += by_ms * (rng.random((120, 1)) < share)
    return of_operations(times_ms)


@functools.cache
def verdict_on_node1(seed: int) -> Verdict:
    """The verdict on a run in which all ranks of node1 stall."""
    return stragglers(on_hosts(stalled(32, slice(8, 16), seed=seed)))


def throttled(ranks: int, slow: slice, seed: int = 0) -> pd.DataFrame:
    factor = factors(80, ranks, noise=0.03, seed=seed)
    factor[:, slow] *= 1.3
    return data_parallel(factor)


def in_lockstep(factor: Floats, size: int) -> pd.DataFrame:
    """Groups of ``size`` ranks reduce inside their work, which is not logged: all wait for the slowest."""
    slowest = factor.reshape(len(factor), -1, size).max(axis=2)
    return data_parallel(np.repeat(slowest, size, axis=1), noise=0.003)


def said(verdict: Verdict) -> str:
    return " ".join((headline(verdict), *evidence_sentences(verdict)))


# -- a host ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(3))
def test_all_ranks_of_a_host_that_stalls_are_named_with_the_host(seed: int) -> None:
    verdict = verdict_on_node1(seed)
    assert (verdict.verdict, verdict.ranks, verdict.hosts) == ("rank", NODE1, ("node1",))
    assert (verdict.bond, verdict.operation) == ("host", "DATA")
    assert verdict.suspects[0].ranks == NODE1


@pytest.mark.slow("test_lockstep_hosts_by_hand.py has such a host")
def test_a_throttled_host_is_named() -> None:
    verdict = stragglers(on_hosts(throttled(32, slice(8, 16))))
    assert (verdict.verdict, verdict.ranks, verdict.bond) == ("rank", NODE1, "host")


@pytest.mark.slow("test_lockstep_hosts_by_hand.py has two hosts, one of which is slow")
@pytest.mark.parametrize("seed", range(3))
def test_of_two_hosts_the_one_that_stalls_is_named_though_it_has_half_of_the_ranks(seed: int) -> None:
    verdict = stragglers(on_hosts(stalled(16, slice(8, 16), 0.3, by_ms=60.0, seed=seed)))
    assert (verdict.verdict, verdict.ranks, verdict.hosts) == ("rank", NODE1, ("node1",))
    assert verdict.cost_ms == pytest.approx(60.0 * verdict.slow_steps, rel=0.15)


@pytest.mark.slow("test_culprits.py has hosts that count in place of ranks")
def test_the_ranks_of_a_host_count_as_one_where_others_are_slow_too() -> None:
    factor = factors(80, 32, noise=0.03)
    factor[:40, 8:16] *= 1.3
    factor[40:, 20] *= 1.4
    verdict = stragglers(on_hosts(data_parallel(factor)))
    assert (verdict.verdict, set(verdict.ranks)) == ("rank", {*NODE1, 20})
    assert verdict.bond == ""


def test_the_verdict_says_that_it_is_likely_the_host_and_what_was_looked_at() -> None:
    text = said(verdict_on_node1(0))
    assert text.startswith("The 8 ranks of node1 (ranks 8 to 15), likely the host, cost this run ")
    assert "The typical rank of node1: 2.15 times the median of the other hosts (intermittent" in text
    assert "these are all ranks of node1, and no rank of another host is as slow then." in text
    assert "DATA varies on each by itself: nobody there waits for another in it." in text


@pytest.mark.slow("test_lockstep_hosts_by_hand.py has such a host")
def test_half_of_a_host_that_stalls_is_named_and_the_host_is_said_to_be_where() -> None:
    verdict = stragglers(on_hosts(stalled(32, slice(8, 12))))
    assert (verdict.verdict, set(verdict.ranks), verdict.hosts) == ("rank", set(NODE1[:4]), ("node1",))
    assert verdict.bond == "part of host"
    assert "these are 4 of the 8 ranks of node1" in said(verdict)


@pytest.mark.slow("test_lockstep_hosts_by_hand.py has such a host")
@pytest.mark.parametrize("seed", seeds(3))
def test_a_host_that_stalls_for_longer_or_shorter_in_every_step_is_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stalls_ms = np.zeros((120, 32))
    stalls_ms[:, 8:16] = rng.exponential(20.0, (120, 1))
    usual_ms = {"DATA": 2.0, "FORWARD": 10.0, "BACKWARD": 20.0, "OPTIMIZER": 3.0}
    times_ms = {name: ms * np.exp(rng.normal(0.0, 0.05, (120, 32))) for name, ms in usual_ms.items()}
    times_ms["DATA"] += stalls_ms
    verdict = stragglers(on_hosts(of_operations(times_ms)))
    assert (verdict.verdict, verdict.ranks, verdict.bond) == ("rank", NODE1, "host")
    assert "varies on each by itself" not in said(verdict)


# -- a host, or its work ------------------------------------------------------------------------------------


@pytest.mark.slow("test_lockstep_hosts_by_hand.py has such a host, and test_verdict.py the headline")
def test_half_of_the_ranks_that_are_always_slower_may_have_more_to_do() -> None:
    verdict = stragglers(on_hosts(throttled(16, slice(8, 16))))
    assert (verdict.verdict, verdict.ranks, verdict.hosts) == ("role", NODE1, ("node1",))
    assert "The 8 ranks of node1 (ranks 8 to 15), or their work, are slow" in said(verdict)
    assert "whether their host or their work is slow cannot be told" in said(verdict)


@pytest.mark.slow("test_pricing.py and test_lockstep_hosts_by_hand.py hold ranks against those of their role")
def test_one_of_two_hosts_of_a_stated_role_is_named_since_its_ranks_have_as_much_to_do() -> None:
    roles = dict.fromkeys(range(16), "stage 0")
    verdict = stragglers(on_hosts(throttled(16, slice(8, 16))), roles=roles)
    assert (verdict.verdict, verdict.ranks, verdict.bond) == ("rank", NODE1, "host")


@pytest.mark.slow("test_culprits.py has half of a role that is slow at once")
def test_half_of_the_ranks_are_nobody_in_particular_where_the_hosts_are_not_known() -> None:
    assert stragglers(stalled(16, slice(8, 16), 0.3, by_ms=60.0)).verdict == "diffuse"


@pytest.mark.slow("test_lockstep_hosts_by_hand.py has such a host")
def test_a_host_with_most_of_the_ranks_is_not_slow_because_another_is_quick() -> None:
    timings = throttled(12, slice(0, 8))
    assert stragglers(on_hosts(timings)).ranks == ()


# -- no host -----------------------------------------------------------------------------------------------


@pytest.mark.slow("test_lockstep.py has what ties such ranks")
def test_ranks_of_a_host_that_wait_for_each_other_unseen_are_not_named() -> None:
    factor = factors(120, 32, noise=0.05)
    factor[:, 13] *= 1.4
    verdict = stragglers(on_hosts(in_lockstep(factor, 8)))
    assert (verdict.verdict, verdict.suspects[0].ranks, verdict.bond) == ("suspect", NODE1, "waiting")
    assert "and it is one of them, or node1, of which they are all." in said(verdict)


@pytest.mark.slow("test_lockstep.py has what ties such ranks")
def test_ranks_that_wait_for_each_other_unseen_in_some_steps_of_one_of_them_are_not_named() -> None:
    factor = factors(120, 32, noise=0.05)
    factor[np.random.default_rng(1).random(120) < 0.4, 13] *= 2.0
    verdict = stragglers(on_hosts(in_lockstep(factor, 8)))
    assert (verdict.verdict, verdict.suspects[0].ranks, verdict.bond) == ("suspect", NODE1, "waiting")


@pytest.mark.slow("test_lockstep.py has what ties such ranks")
def test_ranks_of_several_hosts_in_lockstep_are_not_called_a_host() -> None:
    verdict = stragglers(on_hosts(stalled(32, slice(4, 12))))
    assert (verdict.verdict, verdict.bond) == ("suspect", "something")
    assert "they share something (a host, storage), or wait for each other" not in said(verdict)


@pytest.mark.slow("test_lockstep.py has such ranks, and test_verdict.py the headline")
def test_where_hosts_are_not_known_ranks_in_lockstep_may_share_something() -> None:
    verdict = stragglers(stalled(32, slice(8, 16)))
    assert (verdict.verdict, verdict.ranks, verdict.bond) == ("suspect", (), "something")
    assert headline(verdict).startswith("Probably one of ranks 8 to 15, or something that they share, costs")
    assert "they share something (a host, storage), or wait for each other in something" in said(verdict)


@pytest.mark.slow("test_lockstep.py has what ties such ranks")
def test_hosts_of_which_some_are_not_stated_are_not_known() -> None:
    timings = on_hosts(stalled(32, slice(8, 16)))
    timings.attrs["files"][20]["sidecar"] = None
    assert stragglers(timings).bond == "something"


@pytest.mark.slow("test_lockstep_hosts_by_hand.py has what a host must be to be named")
@pytest.mark.parametrize("ranks", [16, 32])
@pytest.mark.parametrize("seed", range(3))
def test_no_host_of_a_healthy_run_is_slow(ranks: int, seed: int) -> None:
    factor = factors(200, ranks, noise=0.1, seed=seed, memory=0.9)
    assert stragglers(on_hosts(data_parallel(factor, noise=0.05, seed=seed))).verdict == "healthy"
