"""Which process group times, in C++ or in Python, and that a run never fails by it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import group_in_cpp
import pytest
import torch
import torch.distributed as dist
from processes import run_warm
from torch_runner import PROGRAMS

from allreduce_instrumentation import init_process_group
from allreduce_instrumentation.torch_distributed import which_group
from allreduce_instrumentation.torch_distributed.group_library import CannotBuildError
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.process import which_core

needs_native = pytest.mark.skipif(
    which_core.NAME != "native", reason="the native core was not built, or is off"
)

WHICH = """
from allreduce_instrumentation.torch_distributed.which_group import CHOSEN
print(CHOSEN.name)
"""


def chosen_with(program: str = WHICH, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_warm(program, environment={"TIMING_LOGGER_GROUP": "native", **environment})


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The group in C++ is asked for, and would be built if anybody tried, but that fails."""

    def fails() -> None:
        raise CannotBuildError("it was tried")

    monkeypatch.setenv(which_group.VARIABLE, "native")
    monkeypatch.setattr(which_group, "library", fails)
    return monkeypatch


@pytest.mark.parametrize("wanted", ["", "python"])
def test_unless_it_is_asked_for_nothing_is_built(
    wanted: str, asked_for: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked_for.setenv(which_group.VARIABLE, wanted)
    assert which_group._chosen() is which_group.PYTHON
    assert caplog.messages == []


def test_an_unknown_group_is_refused_with_the_names_of_those_there_are(
    asked_for: pytest.MonkeyPatch,
) -> None:
    asked_for.setenv(which_group.VARIABLE, "cpp")
    with pytest.raises(ConfigurationError, match="must be 'python' or 'native', and is 'cpp'"):
        which_group._chosen()


def said_by(caplog: pytest.LogCaptureFixture) -> str:
    """Choose, which gives Python, and return why in the one sentence that says so."""
    assert which_group._chosen() is which_group.PYTHON
    (said,) = caplog.messages
    before, _, reason = said.partition(", though TIMING_LOGGER_GROUP=native: ")
    assert before == "timing logger: process groups are timed in Python"
    return reason


@needs_native
@pytest.mark.usefixtures("asked_for")
def test_where_it_cannot_be_built_one_sentence_says_so_and_python_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert said_by(caplog) == "it was tried"


def test_over_the_python_core_python_times(
    asked_for: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked_for.setattr(which_core, "NAME", "python")
    assert said_by(caplog) == "the recording core is the one in Python"


@needs_native
def test_a_torch_that_it_was_not_tried_with_is_timed_in_python(
    asked_for: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked_for.setattr(which_group.torch, "__version__", "3.0.0")
    assert said_by(caplog) == "torch 3.0.0 was not tried"


@needs_native
@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        ("no-such-compiler", "there is no C++ compiler 'no-such-compiler'"),
        pytest.param("false", "false failed", marks=pytest.mark.slow("another reason, said in the same way")),
    ],
)
def test_without_a_compiler_that_works_one_sentence_says_so_and_python_times(
    tmp_path: Path, compiler: str, reason: str
) -> None:
    run = chosen_with(CXX=compiler, XDG_CACHE_HOME=str(tmp_path))
    assert run.stdout == "python\n"
    assert run.stderr.count("are timed in Python, though TIMING_LOGGER_GROUP=native") == 1
    assert reason in run.stderr


@needs_native
@pytest.mark.slow("another reason, said in the same way")
def test_a_cache_that_cannot_be_written_is_said_and_python_times() -> None:
    run = chosen_with(XDG_CACHE_HOME=os.devnull)
    assert run.stdout == "python\n"
    assert "'/dev/null/timing_logger' cannot be written" in run.stderr


ONE_CALL = """
import torch
import torch.distributed as dist
from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger

with TimingLogger(0, FOLDER) as logger:
    init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timing_logger=logger)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
"""


@pytest.mark.both_groups
def test_the_sidecar_names_what_timed_the_groups(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path) as logger:
        init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timing_logger=logger)
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
    asked_for = os.environ.get(which_group.VARIABLE) == "native" and not group_in_cpp.missing()
    assert group_in_the_sidecar(tmp_path) == ("native" if asked_for else "python")


def group_in_the_sidecar(folder: Path) -> str:
    named: str = json.loads((folder / "timing-rank0.meta.json").read_text())["process_group"]
    return named


@group_in_cpp.needed
@pytest.mark.slow("a process of its own; what the sidecar names is quick over both kinds of groups")
@pytest.mark.parametrize("group", ["python", "native"])
def test_the_sidecar_names_the_group_that_the_environment_asks_for(tmp_path: Path, group: str) -> None:
    group_in_cpp.build()
    run = chosen_with(f"FOLDER = {str(tmp_path)!r}\n{ONE_CALL}", TIMING_LOGGER_GROUP=group)
    assert run.returncode == 0, run.stderr
    assert group_in_the_sidecar(tmp_path) == group


@group_in_cpp.needed
@pytest.mark.slow("odd calls; those of usual ones are quick over both kinds of groups")
def test_odd_calls_raise_the_same_and_have_the_same_rows_whichever_times_them() -> None:
    group_in_cpp.build()
    program = (PROGRAMS / "odd_calls.py").read_text()
    runs = {group: chosen_with(program, TIMING_LOGGER_GROUP=group) for group in ("python", "native")}
    told = {
        group: json.loads(run.stdout.splitlines()[-1]) for group, run in runs.items()
    }  # below gloo's lines
    assert told["native"] == told["python"]
    assert "are timed in Python" not in runs["native"].stderr
    raised, rows = told["native"]
    assert (len(rows) > 20, raised.count("") > 10) == (True, True)
