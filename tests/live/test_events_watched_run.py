"""Which run and job is watched: by the sidecars before the environment, which may be that of another job."""

from __future__ import annotations

from typing import Any

from timing_logger.analysis.rows.files import File
from timing_logger.live.events import WatchedRun, run_of


def files(*sidecars: dict[str, Any] | None) -> list[File]:
    return [{"rank": rank, "sidecar": sidecar} for rank, sidecar in enumerate(sidecars)]  # type: ignore[typeddict-item]


def test_without_sidecars_nothing_is_known_of_a_run() -> None:
    assert run_of(files(None, None)) == WatchedRun(hosts={0: "", 1: ""})
    assert run_of([]) == WatchedRun(hosts={})


def test_the_job_that_srun_stated_counts_more_than_that_of_whoever_looks() -> None:
    elsewhere = {"SLURM_JOB_ID": "99"}
    assert run_of(files({"run_id": "slurm-17.0"}), elsewhere).job_id == "17"
    assert run_of(files({"run_id": "20261126T181500-abcdef/slurm-17.3"}), elsewhere).job_id == "17"


def test_if_the_run_does_not_say_it_the_job_is_that_of_the_environment() -> None:
    run = run_of(files({"run_id": "n07:29500"}), {"PBS_JOBID": "41.server", "HOME": "/"})
    assert (run.run_id, run.job_id) == ("n07:29500", "41.server")


def test_a_rank_that_says_nothing_leaves_what_others_say() -> None:
    run = run_of(files(None, {"run_id": "a", "world_size": 3, "host": "n2"}))
    assert (run.run_id, run.world_size, run.hosts) == ("a", 3, {0: "", 1: "n2"})


def test_hosts_are_told_only_where_there_are_several() -> None:
    one, two = (WatchedRun(hosts={0: "a", 1: other, 2: other}) for other in "ab")
    assert (one.hosts_of_ranks([1]), two.hosts_of_ranks([2, 1])) == ([], ["b"])
