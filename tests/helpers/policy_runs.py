"""Runs for the examples of a policy, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from account_rows import row, table
from coinciding_counters.hosts import host_table
from coinciding_counters.runs import simulated
from simulated_runs import Floats, data_parallel, factors, misplaced, of_groups, of_operations, with_work

from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.files import hosts_of, roles_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.causes.search import given, with_cause
from timing_logger.analysis.verdict.verdict import judgement_on
from timing_logger.analysis.verdict.windows import StragglersAndWindows, verdict_and_windows
from timing_logger.results.policy import STANDARD, Policy

Timings: TypeAlias = (
    tuple[pd.DataFrame, Mapping[int, str] | None]
    | tuple[pd.DataFrame, Mapping[int, str] | None, pd.DataFrame]
)
"""A table, and the role of each rank; None where all have one; and the host counters, if there are any."""


class Example(NamedTuple):
    """A run of which another is said with another number.

    Attributes:
        run: makes the run.
        said: what is said of it by the standard policy.
        other: another number.
        then: what is said with that.
        of: takes from a result what is compared.
    """

    run: Callable[[], Timings]
    said: str
    other: float
    then: str
    of: Callable[[StragglersAndWindows], str]

    def said_by(self, *policies: Policy) -> tuple[str, ...]:
        """Return what is said of the run by each policy: they differ from where its times are known."""
        timings, roles, *counters = self.run()
        host = given(counters[0] if counters else None)
        times, files = step_times(timings), timings.attrs.get("files", [])
        case = Case(times, roles_of(timings, times.ranks, roles), STANDARD, hosts_of(files))
        frame = opened(timings, COLUMNS_OF["stragglers"])
        judged = (with_cause(judgement_on(replace(case, policy=policy), files), host) for policy in policies)
        return tuple(self.of(verdict_and_windows(one, frame)) for one in judged)


# -- what is compared -----------------------------------------------------------------------------------


def verdict(found: StragglersAndWindows) -> str:
    judged = found.verdict
    ranks = "".join(f" {rank}" for rank in judged.ranks_to_look_at)
    return f"{judged.verdict}{ranks}" if judged.judged else "not judged"


def cost(found: StragglersAndWindows) -> str:
    return f"{found.verdict.cost_ms:.0f} ms"


def when(found: StragglersAndWindows) -> str:
    return found.verdict.window


def owner(found: StragglersAndWindows) -> str:
    return found.verdict.owner


def cause(found: StragglersAndWindows) -> str:
    return found.verdict.cause.counter if found.verdict.cause else ""


def suspects(found: StragglersAndWindows) -> str:
    return ", ".join("+".join(map(str, suspect.ranks)) for suspect in found.verdict.suspects)


def windows(found: StragglersAndWindows) -> str:
    rows = found.windows[found.windows["operation"] == "SELF_TIME"]
    columns = ("rank", "kind", "first_iteration", "last_iteration")
    return ", ".join(" ".join(map(str, row)) for row in zip(*(rows[name] for name in columns), strict=True))


# -- runs -----------------------------------------------------------------------------------------------

WORK_MS = {"WORK": 20.0, "END": 1.0}
QUIET = 0.004
"""Sigma of a noise that is below all that a policy may take for a difference."""

ALL = slice(None)


def steps(
    n_steps: int, n_ranks: int, *slowed: tuple[Any, float] | tuple[Any, float, Any],
    noise: float = QUIET, seed: int = 0, memory: float = 0.0, together: float = 0.0, roles: str = "",
    host_ranks: int = 0,
) -> Callable[[], Timings]:  # fmt: skip
    """Make a data-parallel run.

    Args:
        n_steps, n_ranks: its size.
        slowed: ranks, by how much they are slower, and in which steps; all, if none are given.
        noise, seed, memory: as in ``factors``.
        together: sigma of a noise that ranks 1 and 2 have in common.
        roles: the role of each rank, a letter each.
        host_ranks: the number of ranks on each host; 0 if hosts are not known.
    """

    def run() -> Timings:
        factor = factors(n_steps, n_ranks, noise=noise, seed=seed, memory=memory)
        factor[:, 1:3] *= factors(n_steps, 1, noise=together, seed=seed + 30)
        for ranks, times, *when in slowed:
            factor[when[0] if when else ALL, ranks] *= times
        timings = data_parallel(factor, operations_ms=WORK_MS)
        if host_ranks:
            hosts = [f"node{rank // host_ranks}" for rank in range(n_ranks)]
            timings.attrs["files"] = [{"rank": r, "sidecar": {"host": host}} for r, host in enumerate(hosts)]
        return timings, dict(enumerate(roles)) or None

    return run


def working(
    n_steps: int, n_ranks: int, *, as_much: float, slower: float, varies: float, grows: bool = True,
    noise: float = QUIET,
) -> Callable[[], Timings]:  # fmt: skip
    """Make a run whose rank 1 has more to do, and is slower for what it has to do.

    Args:
        n_steps, n_ranks: its size.
        as_much: the work of rank 1, compared with that of the others.
        slower: by which factor rank 1 takes longer for its work.
        varies: sigma of the work of each rank and step.
        grows: whether the times grow with the work; else rank 1 is slower by ``as_much``, too.
        noise: sigma of the times.
    """

    def run() -> Timings:
        work = 1000 * factors(n_steps, n_ranks, noise=varies, seed=7)
        work[:, 1] *= as_much
        factor = factors(n_steps, n_ranks, noise=noise) * (work / 1000 if grows else 1)
        factor[:, 1] *= slower if grows else slower * as_much
        return with_work(data_parallel(factor, operations_ms=WORK_MS), "WORK", work), None

    return run


def slower_later(n_steps: int, times: float, varying: float) -> Callable[[], Timings]:
    """Make a run in whose second half all ranks are slower, and vary together by so much (sigma)."""

    def run() -> Timings:
        factor = factors(n_steps, 4, noise=QUIET) * factors(n_steps, 1, noise=varying)
        factor[n_steps // 2 :] *= times
        return data_parallel(factor, operations_ms=WORK_MS), None

    return run


def short_between(times: float, varying: float) -> Callable[[], Timings]:
    """Make a run in which rank 1 is slow in every other step; those between are short, and vary."""

    def run() -> Timings:
        factor = factors(80, 3, noise=QUIET)
        factor[::2] = times * factors(40, 3, noise=varying, seed=5)
        factor[1::2, 1] *= 3
        return data_parallel(factor, operations_ms=WORK_MS), None

    return run


def unequal(n_steps: int, *times: float) -> Callable[[], Timings]:
    """Make a run of ranks that are each so many times slower."""
    return steps(n_steps, len(times), *enumerate(times))


def logged(n_steps: int, roles: str = "", unlogged: str = "", **ms: list[float]) -> Callable[[], Timings]:
    """Make a run of operations, by the time in ms of each rank in each; ``unlogged`` has no rows."""

    def run() -> Timings:
        times_ms = {name: by_rank * _quiet(n_steps, len(by_rank)) for name, by_rank in ms.items()}
        kept = [name for name in (*times_ms, "ALLREDUCE") if name != unlogged]
        return of_operations(times_ms, logged=kept), dict(enumerate(roles)) or None

    return run


def _quiet(n_steps: int, n_columns: int) -> Floats:
    return factors(n_steps, n_columns, noise=QUIET)


def groups(
    n_steps: int, n_groups: int, *slowed: tuple[float, slice], work_ms: float = 10.0
) -> Callable[[], Timings]:
    """Make a run of groups, the first of which takes so many times 2 ms in some steps."""

    def run() -> Timings:
        transfer_ms = 2.0 * _quiet(n_steps, n_groups)
        for times, at in slowed:
            transfer_ms[at, 0] *= times
        return of_groups(transfer_ms, work_ms=work_ms), None

    return run


def apart(*work_ms: float) -> Callable[[], Timings]:
    """Make a run of two groups of ranks, which never wait for each other, by how long each rank works."""
    return lambda: (of_groups(_quiet(40, 2), work_ms=np.array(work_ms), size=len(work_ms) // 2), None)


def saving(*at: int) -> Callable[[], Timings]:
    """Make a run in which rank 1 alone saves in some steps."""

    def run() -> Timings:
        work_ms, save_ms = 20.0 * _quiet(60, 4), np.zeros((60, 4))
        save_ms[list(at), 1] = 200.0
        timings = of_operations({"SAVE": save_ms, "WORK": work_ms, "END": np.ones((60, 4))})
        return timings[timings["elapsed_ms"] > 0].reset_index(drop=True), None

    return run


def slow_groups(n_groups: int, n_slow: int) -> Callable[[], Timings]:
    """Make a run of groups, some of which take three times as long as the others."""
    transfer_ms = np.where(np.arange(n_groups) < n_slow, 6.0, 2.0) * _quiet(30, n_groups)
    return lambda: (of_groups(transfer_ms, work_ms=15.0), None)


def bad_clock(up_to_ms: float) -> Callable[[], Timings]:
    """Make a run with a slow rank, and another whose rows are as much too late."""

    def run() -> Timings:
        timings, roles = steps(40, 4, (1, 1.5), (3, 1.4, slice(20)))()
        return misplaced(timings, 2, up_to_ms, seed=1), roles

    return run


def spans(*those: tuple[int, int]) -> Any:
    """Return the positions in some spans of steps."""
    return np.concatenate([np.arange(*span) for span in those])


def leaving(
    late_ms: float,
    *,
    every: int = 1,
    works_ms: float = 20.0,
    transfer_ms: float = 2.0,
    clocks_s: float = 0.0,
) -> pd.DataFrame:
    """Make steps of four ranks, of which rank 1 works so long, and leaves late in every so many of them."""
    rng, now, rows = np.random.default_rng(1), np.zeros(4), []
    for step in range(60):
        came = now + np.array([20.0, works_ms, 20.0, 20.0]) * np.exp(0.03 * rng.normal(size=4))
        for rank in range(4):
            left = came.max() + transfer_ms + (late_ms if rank == 1 and step % every == 0 else 0.0)
            of = {"group_size": 4, "seq": step, "iteration": step}
            rows.append(row(rank, "BACKWARD", now[rank], came[rank], iteration=step))
            rows.append(row(rank, "ALLREDUCE", came[rank], left, **of))
            now[rank] = left
    return table(*rows, uncertainty_s=clocks_s)


def leaving_late(late_ms: float, works_ms: float) -> Callable[[], Timings]:
    """Make such a run, of which no role is stated."""
    return lambda: (leaving(late_ms, works_ms=works_ms), None)


def counted(
    n_steps: int, counter: str = "main_run_queue_wait_us", states: float = 1.0, varying: float = 0.0
) -> Callable[[], Timings]:
    """Make a run in which a rank is slow now and then, and a counter that states a part of its delays.

    Args:
        n_steps: the number of steps, each longer than an interval of the counters.
        counter: the counter.
        states: the part of the delays that it states.
        varying: by how much it varies by itself, as a fraction of the most that it shows.
    """

    def run() -> Timings:
        rng = np.random.default_rng(3)
        its = simulated(rng, run_s=2.0 * n_steps, step_ms=2000, course="coming and going", times_as_long=1.5)
        host = host_table(its, rng, counter)[["rank", "incarnation", "start_counter", "end_counter", counter]]
        shown = states * host[counter]
        noise = np.random.default_rng(4).normal(0, 1, len(host)) * shown.max() * varying
        return its.timings, None, host.assign(**{counter: np.maximum(shown + noise, 0)})

    return run
