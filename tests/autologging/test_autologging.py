"""``timing-logger run`` times programs that know nothing of it, and leaves what they do as it is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import warm
from mpi_runner import environment_of_a_job
from places import ROOT
from processes import run_warm
from timed_jobs import PROGRAMS, Job, run, said_by_the_command, timed_warm, torchrun, untimed

import timing_logger
from timing_logger import analysis, read_timings

# -- what it says ----------------------------------------------------------------------------------------


NOT_LATE, LATE = "0", "0.08"
"""By so many seconds: what runs beside a test makes ranks differ by much less."""
USUAL = "0.02"
"""So many seconds a batch takes all ranks: beside that, what else holds a step up is little."""
STEPS = 24


def test_the_slow_rank_of_an_unchanged_ddp_training_is_named_with_its_operation(tmp_path: Path) -> None:
    training = [PROGRAMS / "ddp.py", LATE, USUAL, STEPS]
    job = timed_warm(tmp_path / "logs", [*torchrun(warm.python()), *training])
    assert job.returncode == 0, job.stderr
    assert f"(recorded by the {timing_logger.recording_core} core)" in said_by_the_command(job)
    assert "Verdict: rank 1 costs this run " in said_by_the_command(job)
    assert ", in DATA. Certain." in said_by_the_command(job)
    rows = read_timings(tmp_path / "logs")
    assert set(rows["rank"]) == {0, 1}
    assert set(rows["iteration"].dropna()) >= set(range(STEPS))
    assert {"DATA", "FORWARD", "BACKWARD", "OPTIMIZER", "IALLREDUCE"} <= set(rows["operation"])
    assert set(rows.loc[rows["operation"] == "DATA", "work"].dropna()) == {8}  # the samples of its batches
    assert "For the work that it has, rank 1 takes " in said_by_the_command(job)


@pytest.mark.slow("two trainings more; that a program in one process gets what it would is quick")
def test_a_ddp_training_gets_and_says_what_it_would_untimed(tmp_path: Path) -> None:
    command = [*torchrun(warm.python()), PROGRAMS / "ddp.py", NOT_LATE]
    plain, job = untimed(command), timed_warm(tmp_path / "logs", command)
    assert (job.returncode, job.stdout) == (plain.returncode, plain.stdout)
    assert job.stderr.replace(said_by_the_command(job), "") == plain.stderr


def mpi_job(folder: Path, late_s: str, ranks: int = 3) -> Job:
    """Run an MPI program, of which the third rank is late; it must end as it would untimed."""
    launcher = Path(sys.executable).parent / "mpiexec"
    if not launcher.exists():
        pytest.skip("no mpiexec")
    with environment_of_a_job() as environment:
        command = [launcher, "-n", ranks, warm.python(), PROGRAMS / "mpi.py", late_s]
        job = timed_warm(folder, command, **environment)
    names = [f"rank {rank}" for rank in range(ranks)]
    assert (job.returncode, job.stdout) == (0, f"{float(ranks)} {names}\n")
    return job


def test_an_unchanged_mpi_program_is_timed_and_ends_as_it_would(tmp_path: Path) -> None:
    job = mpi_job(tmp_path / "logs", NOT_LATE, ranks=2)
    assert "timings of 2 ranks are in" in said_by_the_command(job)
    rows = read_timings(tmp_path / "logs")
    assert (rows["operation"] == "ALLREDUCE").sum() == 2 * 40


@pytest.mark.slow("ranks that wait keep cores busy; the late rank of a DDP training is named above")
def test_the_late_rank_of_an_unchanged_mpi_program_is_named(tmp_path: Path) -> None:
    assert "Verdict: rank 2 costs this run " in said_by_the_command(mpi_job(tmp_path / "logs", LATE))


@pytest.mark.slow("one more program; rows, names and the slow rank of unchanged programs are quick")
def test_who_imports_mpi4py_by_the_way_is_the_rank_that_its_process_group_says(tmp_path: Path) -> None:
    """Lightning does, and starts its ranks without a rank in their environment."""
    program = """
from mpi4py import MPI
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", rank=1, world_size=2, store=FakeStore())
print(type(MPI.COMM_WORLD).__name__)
"""
    job = timed_warm(tmp_path, [warm.python(), "-c", program], "--quiet")
    assert job.stdout == "Intracomm\n", job.stderr
    assert [path.name for path in tmp_path.glob("timing-*.csv")] == ["timing-rank1.csv"]


def test_a_program_without_ranks_is_said_to_have_recorded_nothing(tmp_path: Path) -> None:
    job = timed_warm(tmp_path / "logs", [sys.executable, "-c", "print('hello')"])
    assert (job.returncode, job.stdout) == (0, "hello\n")
    assert "nothing was recorded" in job.stderr


@pytest.mark.slow("one more program; rows, names and the slow rank of unchanged programs are quick")
def test_the_slow_core_that_recorded_is_named_with_the_way_out(tmp_path: Path) -> None:
    program = """
import torch
weight = torch.nn.Parameter(torch.ones(1))
torch.optim.SGD([weight], lr=0.1).step()
"""
    command = [warm.python(), "-c", program]
    job = timed_warm(tmp_path / "python", command, TIMING_LOGGER_CORE="python")
    assert "(recorded by the python core)" in said_by_the_command(job)
    assert "rank 0 recorded with the python core: a record takes several times as long" in job.stderr
    assert "unset it for the native core" in job.stderr


def test_quiet_says_nothing(tmp_path: Path) -> None:
    job = timed_warm(tmp_path / "logs", [sys.executable, "-c", "pass"], "--quiet")
    assert (job.returncode, job.stdout, job.stderr) == (0, "", "")


class Trained(NamedTuple):
    """A training in one process, whose model and report were written into ``folder``."""

    folder: Path
    job: Job


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    command = [warm.python(), PROGRAMS / "alone.py", folder / "model"]
    return Trained(folder, timed_warm(folder / "logs", command, "--report", folder / "report.html"))


def test_the_report_is_written_at_the_end(trained: Trained) -> None:
    assert trained.job.returncode == 0
    assert "<html" in (trained.folder / "report.html").read_text()
    assert f"{trained.folder / 'report.html'}" in trained.job.stderr


@pytest.mark.slow("one more program; rows, names and the slow rank of unchanged programs are quick")
def test_a_second_run_into_the_folder_is_the_one_that_is_told_of(tmp_path: Path) -> None:
    command = [warm.python(), PROGRAMS / "alone.py"]
    assert timed_warm(tmp_path / "logs", command, "--quiet").stderr == ""
    job = timed_warm(tmp_path / "logs", command)
    assert "timings of 1 rank are in" in said_by_the_command(job)
    assert job.stderr == said_by_the_command(job)
    (messages,) = (tmp_path / "logs").glob("autolog-messages-*.txt")
    assert "this run writes" in messages.read_text()
    assert sorted(path.name for path in (tmp_path / "logs").glob("timing-*.csv")) == [
        "timing-rank0.csv",
        "timing-rank0.run2.csv",
    ]


# -- the training is what it was -------------------------------------------------------------------------


def test_a_module_that_is_called_within_a_container_has_forward_rows(trained: Trained) -> None:
    rows = read_timings(trained.folder / "logs")
    counts = analysis.summarize(rows, by=["operation"]).set_index("operation")["count"]
    assert counts[["DATA", "BACKWARD", "OPTIMIZER"]].tolist() == [10, 10, 10]
    assert counts["FORWARD"] == 8  # from the third step on: after the first the container is watched


def test_a_job_is_asked_for_what_its_host_counts_and_for_no_samples_of_stacks(trained: Trained) -> None:
    options = json.loads((trained.folder / "logs" / "timing-rank0.meta.json").read_text())["options"]
    assert (options["host_counters"], options["stack_samples"]) == (True, False)


def test_a_trained_model_is_loaded_where_the_package_is_not(trained: Trained) -> None:
    plain = run([warm.python(), PROGRAMS / "alone.py"])
    assert trained.job.stdout == plain.stdout
    load = f"""
        import pickle, sys
        sys.modules["timing_logger"] = None
        sys.argv = [""]
        import torch, __main__
        class Task(torch.nn.Module): ...
        model = pickle.load(open({str(trained.folder / "model")!r}, "rb")).model
        print(model(torch.ones(1, 4)).shape)
        """
    assert run_warm(load).stdout == "torch.Size([1, 1])\n"


@pytest.mark.slow("one more program; rows, names and the slow rank of unchanged programs are quick")
def test_a_program_may_initialise_a_logger_of_its_own(tmp_path: Path) -> None:
    program = f"""
import gc, torch
gc.disable()  # a collection would have a row, too
from timing_logger import get_timing_logger, init_timing_logger, shutdown_timing_logger
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter])
parameter.sum().backward(); optimizer.step()
assert get_timing_logger().enabled
init_timing_logger(0, {str(tmp_path / "own")!r}).record_timing("MINE", 1.0)
shutdown_timing_logger()
optimizer.step()
"""
    job = timed_warm(tmp_path / "logs", [warm.python(), "-c", program], "--quiet")
    assert job.returncode == 0, job.stderr
    assert read_timings(tmp_path / "own")["operation"].tolist() == ["MINE"]
    assert read_timings(tmp_path / "logs")["operation"].tolist() == ["BACKWARD", "OPTIMIZER", "OPTIMIZER"]


def test_a_sitecustomize_of_the_users_own_is_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.MINE = 5")
    program = "import sys, sitecustomize; print(MINE, sitecustomize.__file__, 'autologging' in str(sys.path))"
    paths = f"{tmp_path}{os.pathsep}{ROOT}"
    job = timed_warm(tmp_path / "logs", [sys.executable, "-c", program], PYTHONPATH=paths)
    assert job.stdout == f"5 {tmp_path / 'sitecustomize.py'} False\n"


def test_one_line_in_the_program_does_the_same(tmp_path: Path) -> None:
    program = f"""
import gc, timing_logger, torch
gc.disable()  # a collection would have a row, too
timing_logger.autolog({str(tmp_path / "logs")!r}, every=2)
timing_logger.autolog("elsewhere")
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter])
for _ in range(5):
    parameter.sum().backward(); optimizer.step()
"""
    assert run_warm(program).returncode == 0
    rows = read_timings(tmp_path / "logs")
    assert rows["iteration"].tolist() == [0, 0, 2, 2, 4, 4]
    assert rows["operation"].tolist() == ["BACKWARD", "OPTIMIZER"] * 3


def test_parts_of_a_step_that_raise_say_so_and_those_of_two_threads_are_kept_apart(tmp_path: Path) -> None:
    program = f"""
import gc, threading, timing_logger, torch
gc.disable()  # a collection would have a row, too
timing_logger.autolog({str(tmp_path / "logs")!r})

class Odd(torch.autograd.Function):
    @staticmethod
    def forward(context, x, seen): context.seen = seen; return x
    @staticmethod
    def backward(context, gradient): return context.seen(gradient), None

def refuse(gradient): raise KeyError("no")
try:
    Odd.apply(torch.ones(1, requires_grad=True), refuse).backward()
except KeyError:
    pass

together = threading.Barrier(2, timeout=30)
def meet(gradient): together.wait(); together.wait(); return gradient
other = threading.Thread(target=lambda: Odd.apply(torch.ones(1, requires_grad=True), meet).backward())
other.start()
Odd.apply(torch.ones(1, requires_grad=True), meet).backward()
other.join()

class Damaged(torch.utils.data.Dataset):
    def __len__(self): return 2
    def __getitem__(self, i): return i if i == 0 else refuse(i)
try:
    list(torch.utils.data.DataLoader(Damaged()))
except KeyError:
    pass
"""
    run = run_warm(program)
    assert run.returncode == 0, run.stderr
    rows = read_timings(tmp_path / "logs")
    assert sorted(zip(rows["operation"], rows["status"], strict=True)) == [
        ("BACKWARD", "error:KeyError"), ("BACKWARD", "ok"), ("BACKWARD", "ok"),
        ("DATA", "error:KeyError"), ("DATA", "ok"),
    ]  # fmt: skip
    assert rows["thread"].nunique() == 2


@pytest.mark.slow("one more program; rows, names and the slow rank of unchanged programs are quick")
def test_a_second_training_counts_on_while_the_first_optimizer_is_alive(tmp_path: Path) -> None:
    program = """
import torch
weight = torch.nn.Parameter(torch.ones(1))
def train(steps):
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(steps):
        (weight ** 2).sum().backward(); optimizer.step()
    return optimizer
kept = [train(5), train(7)]
"""
    timed_warm(tmp_path, [warm.python(), "-c", program], "--quiet")
    rows = read_timings(tmp_path)
    steps = rows[rows["operation"] == "OPTIMIZER"]["iteration"]
    assert list(steps) == list(range(12))


def test_torchs_function_may_be_replaced_by_ours(tmp_path: Path) -> None:
    program = f"""
import torch.distributed as dist
from allreduce_instrumentation import init_process_group
dist.init_process_group = init_process_group
dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
print(dist.get_world_size())
"""
    assert run_warm(program).stdout == "1\n"


# -- where the timing fails ------------------------------------------------------------------------------


def test_an_error_in_the_timing_leaves_the_training_alone_and_is_told_of_once(tmp_path: Path) -> None:
    """The folder is gone when the logger is started."""
    program = f"""
import os, shutil, torch
shutil.rmtree({str(tmp_path / "logs")!r}); open({str(tmp_path / "logs")!r}, "w").close()
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter])
for _ in range(3):
    optimizer.zero_grad(); parameter.sum().backward(); optimizer.step()
os.unlink({str(tmp_path / "logs")!r})
print(parameter.item())
"""
    job = timed_warm(tmp_path / "logs", [warm.python(), "-c", program])
    assert job.returncode == 0
    assert job.stdout.startswith("0.997")
    assert "nothing was recorded" in job.stderr
