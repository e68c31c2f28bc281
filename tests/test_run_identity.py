"""All ranks of a run derive one identity from what their launcher says, and those of other runs another."""

from __future__ import annotations

import pytest

from timing_logger.run_identity import VARIABLE, id_of_new_run, identity

Environment = dict[str, str]

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "node-a", "MASTER_PORT": "29500", "WORLD_SIZE": "4"}
OPEN_MPI = {"PMIX_NAMESPACE": "prterun-node-a-17@1", "OMPI_COMM_WORLD_SIZE": "4"}
OPEN_MPI_4 = {"PMIX_NAMESPACE": str(0x81020001), "OMPI_COMM_WORLD_SIZE": "4"}
SLURM = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
PODS = {"MASTER_ADDR": "node-a", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "RANK": "1"}


@pytest.mark.parametrize(
    ("environment", "run_id"),
    [
        ({}, ""),
        (TORCHRUN, "node-a:29500"),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "mine"}, "mine"),
        (OPEN_MPI, "prterun-node-a-17"),
        (OPEN_MPI_4, f"openmpi-{0x8102}"),
        ({"PMIX_NAMESPACE": "slurm.pmix.12.0", **SLURM}, "slurm.pmix.12.0"),
        ({"PMI_JOBID": "12.0"}, "12.0"),
        (SLURM, "slurm-12.0"),
        (PODS, "node-a:29500"),
        ({"MASTER_PORT": "29500"}, ""),
        ({**SLURM, **TORCHRUN}, "node-a:29500"),
    ],
)
def test_a_run_has_the_identity_that_its_launcher_gives_all_ranks(
    environment: Environment, run_id: str
) -> None:
    assert identity(environment).run_id == run_id
    assert identity({**environment, VARIABLE: "given"}).run_id.startswith("given")


def test_two_launchers_that_one_command_starts_are_two_runs() -> None:
    ranks = [{**TORCHRUN, "MASTER_PORT": port, VARIABLE: "given"} for port in ("29500", "29501")]
    assert [identity(rank) for rank in ranks] == [
        ("given/node-a:29500", "", "given"),
        ("given/node-a:29501", "", "given"),
    ]


def test_a_rank_that_lacks_the_address_yet_is_of_the_run_of_the_others() -> None:
    assert identity({VARIABLE: "given"}) == identity({**PODS, VARIABLE: "given"}) == ("given", "", "given")


def test_ranks_of_several_hosts_have_one_identity_though_each_host_has_a_command_of_its_own() -> None:
    hosts = [{**TORCHRUN, "GROUP_WORLD_SIZE": "2", VARIABLE: command} for command in ("of-a", "of-b")]
    assert [identity(host) for host in hosts] == [("node-a:29500", "", "of-a"), ("node-a:29500", "", "of-b")]


@pytest.mark.parametrize(
    ("environment", "world"),
    [
        (OPEN_MPI, ""),
        ({**OPEN_MPI, "PMIX_NAMESPACE": "prterun-node-a-17@2", "OMPI_PARENT_PORT": "0.0:1"}, "2"),
        ({**OPEN_MPI_4, "PMIX_NAMESPACE": str(0x81020003), "OMPI_PARENT_PORT": "0.0:1"}, "3"),
    ],
)
def test_spawned_ranks_are_another_world_of_the_run(environment: Environment, world: str) -> None:
    started_first = OPEN_MPI_4 if environment["PMIX_NAMESPACE"].isdecimal() else OPEN_MPI
    assert identity(environment) == (identity(started_first).run_id, world, "")


def test_each_start_of_a_job_is_a_new_run() -> None:
    assert id_of_new_run({}) != id_of_new_run({})


@pytest.mark.parametrize("launcher", [TORCHRUN, OPEN_MPI, SLURM, PODS])
def test_commands_that_a_launcher_started_on_each_rank_are_of_one_run(launcher: Environment) -> None:
    assert id_of_new_run(launcher) == id_of_new_run(dict(launcher)) != ""
    assert "/" not in id_of_new_run({**launcher, "TORCHELASTIC_RUN_ID": "a/b"})


@pytest.mark.parametrize("launcher", [TORCHRUN, OPEN_MPI, SLURM])
def test_a_job_within_a_job_is_a_run_of_its_own(launcher: Environment) -> None:
    within = {**launcher, VARIABLE: "outer"}
    assert id_of_new_run(within) not in (identity(within).run_id, identity(launcher).run_id)


def test_two_jobs_in_one_batch_script_are_two_runs() -> None:
    script = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    assert id_of_new_run(script) != id_of_new_run(script)
