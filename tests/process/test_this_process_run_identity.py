"""All ranks of a run derive one identity from what their launcher says, and those of other runs another."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import warm
from mpi_runner import PROGRAMS, environment_of_a_job
from processes import run_job, run_warm

from timing_logger.process.launchers import LAUNCHERS, launcher_of_run
from timing_logger.process.this_process import VARIABLE, id_of_new_run, identity

Environment = dict[str, str]

MPIEXEC = Path(sys.executable).parent / "mpiexec"

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "node-a", "MASTER_PORT": "29500", "WORLD_SIZE": "4"}
OPEN_MPI = {"PMIX_NAMESPACE": "prterun-node-a-17@1", "OMPI_COMM_WORLD_SIZE": "4"}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2"}
OPEN_MPI_4 = {"PMIX_NAMESPACE": str(0x81020001), "OMPI_COMM_WORLD_SIZE": "4"}
SLURM = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
PODS = {"MASTER_ADDR": "node-a", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "RANK": "1"}


RUNS: list[tuple[Environment, str]] = [
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
]


@pytest.mark.parametrize(("environment", "run_id"), RUNS)
def test_a_run_has_the_identity_that_its_launcher_gives_all_ranks(
    environment: Environment, run_id: str
) -> None:
    assert identity(environment).run_id == run_id
    assert identity({**environment, VARIABLE: "given"}).run_id.startswith("given")


def test_a_run_of_each_launcher_is_among_those_that_are_tried() -> None:
    tried = {launcher_of_run(environment) for environment, _ in RUNS}
    assert [one.name for one in LAUNCHERS if one.run and one not in tried] == [], (
        "RUNS lacks a launcher's run"
    )


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
        ({"PMIX_NAMESPACE": "slurm.pmix.12.0", "OMPI_PARENT_PORT": "0.0:1", **SLURM}, "spawned"),
        ({**MPICH, VARIABLE: "given"}, ""),
        ({**MPICH, VARIABLE: "given", "PMI_SPAWNED": "0"}, ""),
        ({**MPICH, VARIABLE: "given", "PMI_SPAWNED": "1"}, "spawned"),
    ],
)
def test_spawned_ranks_are_another_world_of_the_run(environment: Environment, world: str) -> None:
    assert identity(environment).world == world


@pytest.mark.parametrize(
    ("started_first", "spawned"),
    [
        (OPEN_MPI, {"PMIX_NAMESPACE": "prterun-node-a-17@2", "OMPI_PARENT_PORT": "0.0:1"}),
        (OPEN_MPI_4, {"PMIX_NAMESPACE": str(0x81020003), "OMPI_PARENT_PORT": "0.0:1"}),
        ({**MPICH, VARIABLE: "given"}, {"PMI_SPAWNED": "1"}),
    ],
)
def test_spawned_ranks_are_of_the_run_of_those_that_spawned_them(
    started_first: Environment, spawned: Environment
) -> None:
    assert identity({**started_first, **spawned}).run_id == identity(started_first).run_id != ""


class StandIn(SimpleNamespace):
    """``mpi4py.MPI`` of a process that was spawned, of which each test changes something."""

    THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = range(4)
    COMM_NULL, parent = "null", "the parents"
    is_initialized, is_finalized, is_thread_main, level = True, False, True, THREAD_MULTIPLE

    def __init__(self, **changed: Any) -> None:
        super().__init__(**changed)
        self.asked = 0
        self.Is_initialized = lambda: self.is_initialized
        self.Is_finalized = lambda: self.is_finalized
        self.Is_thread_main = lambda: self.is_thread_main
        self.Query_thread = lambda: self.level
        self.Comm = SimpleNamespace(Get_parent=self._get_parent)

    def _get_parent(self) -> str:
        self.asked += 1
        return self.parent


def world_beside(mpi: object, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    return identity({VARIABLE: "given"}).world


@pytest.mark.parametrize("changed", [{}, {"level": StandIn.THREAD_FUNNELED}, {"is_thread_main": False}])
def test_where_the_environment_says_nothing_mpi_is_asked(
    changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world_beside(StandIn(**changed), monkeypatch) == "spawned"
    assert world_beside(StandIn(**changed, parent=StandIn.COMM_NULL), monkeypatch) == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"is_initialized": False},
        {"is_finalized": True},
        {"level": StandIn.THREAD_FUNNELED, "is_thread_main": False},
        {"level": StandIn.THREAD_SERIALIZED},
    ],
)
def test_mpi_is_asked_only_when_this_thread_may_call_it(
    changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpi = StandIn(**changed)
    assert world_beside(mpi, monkeypatch) == ""
    assert mpi.asked == 0


def test_a_forked_child_leaves_mpi_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mpi = StandIn()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert world_beside(mpi, monkeypatch) == ""
    assert mpi.asked == 0


def test_an_mpi4py_that_is_half_imported_or_fails_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert world_beside(SimpleNamespace(), monkeypatch) == ""
    failing = StandIn()
    failing.Comm.Get_parent = lambda: 1 / 0
    assert world_beside(failing, monkeypatch) == ""


def test_mpi4py_is_not_imported_to_ask() -> None:
    program = """
import sys
from timing_logger.process.this_process import identity
identity()
assert not any(name.startswith("mpi4py") for name in sys.modules)
"""
    assert run_warm(program).returncode == 0


@pytest.mark.slow("real jobs; what a launcher states, and what only MPI knows, is quick by stand-ins")
@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec")
@pytest.mark.parametrize("hidden", ["", "PMI_SPAWNED,OMPI_PARENT_PORT"], ids=["stated", "only MPI knows"])
def test_a_spawned_rank_knows_that_it_is_one(hidden: str, tmp_path: Path) -> None:
    program = PROGRAMS / "spawned_loggers.py"
    with environment_of_a_job() as environment:
        command = [MPIEXEC, "-n", 2, warm.python(), "-m", "mpi4py", program, tmp_path, warm.python()]
        job = run_job(command, environment={**environment, "HIDDEN": hidden}, name="spawning")
    assert job.returncode == 0, job.stderr
    told = [json.loads(path.read_text()) for path in tmp_path.glob("*.meta.json")]
    assert sorted(one["labels"]["spawned"] for one in told) == [False, False, True, True]
    for one in told:
        assert bool(one["world"]) == one["labels"]["spawned"]


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
