"""The examples for torchrun do what their texts say, on two ranks over gloo."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
import warm
from _torch_training import add_training_options, checked
from limits import PROCESS_S, scaled
from places import ROOT
from slow import slow
from torch_runner import run_under_torchrun

from timing_logger import read_timings
from timing_logger.cli import main

EXAMPLES = ROOT / "examples"
RANKS = 2
DELAYED = 1
EPOCHS, STEPS = 2, 5
ITERATIONS = list(range(EPOCHS * STEPS))
SETTLED = 3
"""DDP makes its buckets anew after the first pass, and tells of them after two more."""

BLOCKS = [f"fsdp:blocks.{number}" for number in range(3)]
BY_DDP = "the training with DDP is quick; that FSDP2 is recorded is tested with FSDP2 itself"
BOTH = pytest.mark.parametrize("example", ["train_ddp", slow("train_fsdp2", BY_DDP)])


@cache
def rows_in(log_dir: Path) -> pd.DataFrame:
    """Return the rows of a training that has ended: many tests look at them, and none changes them."""
    return read_timings(log_dir)


class Trained(NamedTuple):
    """What an example printed, and where its timing files are."""

    stdout: str
    log_dir: Path

    @property
    def timings(self) -> pd.DataFrame:
        return rows_in(self.log_dir)

    @property
    def of_training(self) -> pd.DataFrame:
        timings = self.timings
        return timings[timings.iteration.notna() & (timings.layer_name != "validation")]

    @property
    def validation_losses(self) -> list[float]:
        return [float(loss) for loss in re.findall(r"^epoch .* validation (\S+)$", self.stdout, re.MULTILINE)]


def run_example(name: str, log_dir: Path, *options: str) -> Trained:
    job = run_under_torchrun(RANKS, EXAMPLES / f"{name}.py", "--log-dir", str(log_dir), *options)
    assert job.returncode == 0, f"{job.stdout}\n{job.stderr}"
    return Trained(job.stdout, log_dir)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    """Both examples with the same settings, and a rank that takes long to load each batch."""
    options = ["--epochs", str(EPOCHS), "--steps", str(STEPS), "--straggler", f"{DELAYED}:100"]

    class Trainings(dict[str, Trained]):
        """Runs each when it is first asked for."""

        def __missing__(self, name: str) -> Trained:
            self[name] = run_example(name, tmp_path_factory.mktemp(name), *options)
            return self[name]

    return Trainings()


@BOTH
def test_a_training_shows_progress_once_per_epoch_and_not_once_per_rank(
    trained: dict[str, Trained], example: str
) -> None:
    assert len(re.findall(r"^epoch ", trained[example].stdout, re.MULTILINE)) == EPOCHS


@BOTH
def test_a_training_learns(trained: dict[str, Trained], example: str) -> None:
    first, last = trained[example].validation_losses
    assert last < first < 4.85  # what a model that knows nothing has: log(128)


@pytest.mark.slow(BY_DDP)
def test_both_trainings_come_to_the_same(trained: dict[str, Trained]) -> None:
    by_ddp, by_fsdp2 = (trained[name].validation_losses for name in ("train_ddp", "train_fsdp2"))
    assert by_ddp == pytest.approx(by_fsdp2, abs=0.02)


@BOTH
def test_every_rank_writes_its_file_to_the_end(trained: dict[str, Trained], example: str) -> None:
    files = trained[example].timings.attrs["files"]
    assert [file["rank"] for file in files] == list(range(RANKS))
    for file in files:
        assert file["sidecar"]["closed"]
        assert file["sidecar"]["counters"]["written"] == file["rows"] > 0
        assert file["sidecar"]["counters"]["dropped"] == 0


@BOTH
def test_every_row_is_of_something_that_ended_well(trained: dict[str, Trained], example: str) -> None:
    assert set(trained[example].timings.status) == {"ok"}


@BOTH
def test_all_parts_of_every_iteration_are_rows(trained: dict[str, Trained], example: str) -> None:
    rows = trained[example].of_training
    for operation in ("DATA", "FORWARD", "BACKWARD", "OPTIMIZER"):
        for _, of_rank in rows[rows.operation == operation].groupby("rank"):
            assert of_rank.iteration.to_list() == ITERATIONS


@pytest.mark.parametrize("operation", ["IALLREDUCE", "WAIT"])
def test_ddp_has_a_row_for_each_bucket_by_name_once_its_buckets_are_settled(
    trained: dict[str, Trained], operation: str
) -> None:
    rows = trained["train_ddp"].of_training
    settled = rows[(rows.operation == operation) & (rows.iteration >= SETTLED)]
    names = set(settled.layer_name)
    assert len(names) >= 3
    assert "ddp:head.weight" in names
    assert all(name.startswith("ddp:") for name in names)
    per_iteration = settled.groupby(["rank", "iteration"]).layer_name.agg(sorted)
    assert per_iteration.to_list() == [sorted(names)] * RANKS * (len(ITERATIONS) - SETTLED)


@pytest.mark.slow(BY_DDP)
@pytest.mark.parametrize("operation", ["ALLGATHER", "REDUCE_SCATTER"])
def test_fsdp2_has_rows_for_each_module_by_name(trained: dict[str, Trained], operation: str) -> None:
    rows = trained["train_fsdp2"].of_training
    layers = rows[rows.operation == operation].groupby(["rank", "iteration"]).layer_name.agg(set)
    assert len(layers) == RANKS * len(ITERATIONS)
    assert all(names >= set(BLOCKS) for names in layers)
    assert set().union(*layers) == {*BLOCKS, "fsdp:(root)"}


@BOTH
def test_the_validation_loss_is_one_all_reduce_per_epoch(trained: dict[str, Trained], example: str) -> None:
    rows = trained[example].timings
    rows = rows[(rows.operation == "ALLREDUCE") & (rows.layer_name == "validation")]
    assert rows.groupby("rank").epoch.agg(list).to_list() == [list(range(EPOCHS))] * RANKS


@pytest.mark.parametrize(
    ("example", "operation", "layer"),
    [
        ("train_ddp", "IALLREDUCE", "ddp:head.weight"),
        ("train_ddp", "WAIT", "ddp:head.weight"),
        pytest.param("train_fsdp2", "ALLGATHER", "fsdp:(root)", marks=pytest.mark.slow(BY_DDP)),
    ],
)
def test_the_delayed_rank_waits_least_in_what_comes_first_after_its_delay(
    trained: dict[str, Trained], example: str, operation: str, layer: str
) -> None:
    rows = trained[example].of_training
    rows = rows[(rows.operation == operation) & (rows.layer_name == layer)]
    per_step = rows.pivot_table(index="iteration", columns="rank", values="elapsed_ms", aggfunc="sum")
    assert len(per_step) >= len(ITERATIONS) - SETTLED
    assert per_step.median().idxmin() == DELAYED


@BOTH
def test_it_ends_with_the_command_that_says_where_the_time_went(
    trained: dict[str, Trained], example: str
) -> None:
    assert trained[example].stdout.rstrip().endswith(f"timing-logger summary {trained[example].log_dir}")


@pytest.mark.slow("that an example ends with this command is quick, and so is what it prints")
def test_the_command_it_ends_with_says_where_the_time_went(
    trained: dict[str, Trained], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(trained["train_ddp"].log_dir)]) == 0
    assert "BACKWARD" in capsys.readouterr().out


@pytest.mark.slow("a third training; what is accumulated is tested with DistributedDataParallel itself")
def test_accumulated_gradients_travel_once_per_step(tmp_path: Path) -> None:
    rows = run_example(
        "train_ddp", tmp_path, "--accumulate", "3", "--epochs", "1", "--steps", "5"
    ).of_training
    rows = rows[rows.iteration >= SETTLED]
    per_step = rows.groupby(["operation", "layer_name", "rank", "iteration"]).size()
    assert set(per_step["FORWARD"]) == set(per_step["BACKWARD"]) == {3}
    assert set(per_step["IALLREDUCE"]) == {1}


def options_of(monkeypatch: pytest.MonkeyPatch, *arguments: str, **environment: str) -> argparse.Namespace:
    """What both examples make of their options."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["an example.py", *arguments])
    parser = argparse.ArgumentParser()
    add_training_options(parser, "logs")
    return checked(parser)


def test_options_are_refused_without_torchrun_and_it_says_how_to_start_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        options_of(monkeypatch)
    said = capsys.readouterr().err
    assert shlex.split(said.partition("start it with ")[2]) == [
        "torchrun", "--nproc-per-node", "4", "an example.py",
    ]  # fmt: skip


def test_a_straggler_that_is_no_rank_is_no_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        options_of(monkeypatch, "--straggler", "2:30", RANK="0", WORLD_SIZE="2")
    assert "argument --straggler: there is no rank 2 among 2 ranks" in capsys.readouterr().err


def test_options_have_the_rank_that_torchrun_states(monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of(monkeypatch, "--straggler", "1:30", RANK="1", WORLD_SIZE="2")
    assert (options.rank, options.world_size, options.straggler.rank) == (1, 2, 1)


OPTIONS_ARE_QUICK = "one more program; what is refused of its options is quick without one"


def refusal_of(name: str, *options: str, **environment: str) -> str:
    """What an example that ends at once says, in a process of its own."""
    without_torchrun = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    run = subprocess.run(
        [warm.python(), str(EXAMPLES / f"{name}.py"), *options],
        env={**without_torchrun, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    return run.stderr


@pytest.mark.slow(OPTIONS_ARE_QUICK)
@pytest.mark.parametrize("example", ["train_ddp", "train_fsdp2"])
def test_an_example_that_is_started_without_torchrun_says_how(example: str) -> None:
    said = refusal_of(example)
    *command, path = shlex.split(said.partition("start it with ")[2])
    assert command == ["torchrun", "--nproc-per-node", "4"]
    assert Path(path).name == f"{example}.py"


@pytest.mark.slow(OPTIONS_ARE_QUICK)
def test_a_straggler_that_is_no_rank_is_refused_before_training(tmp_path: Path) -> None:
    options = ["--straggler", "2:30", "--log-dir", str(tmp_path / "logs")]
    said = refusal_of("train_ddp", *options, RANK="0", WORLD_SIZE="2")
    assert "argument --straggler: there is no rank 2 among 2 ranks" in said
    assert not (tmp_path / "logs").exists()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    log_dir = tmp_path_factory.mktemp("watched")
    command = [sys.executable, str(EXAMPLES / "watch_training.py"), "--log-dir", str(log_dir), "--"]
    training = ["--seconds", "6", "--slow-ms", "200", "--since", "2", "--until", "4"]
    job = subprocess.run([*command, *training], capture_output=True, text=True, timeout=scaled(180))
    assert job.returncode == 0, f"{job.stdout}\n{job.stderr}"
    return Trained(job.stdout, log_dir)


live = pytest.mark.slow("a live training of four ranks, which is told of by how long its ranks take")


@live
@pytest.mark.serial
def test_in_the_live_training_one_rank_is_slow_for_a_while(watched: Trained) -> None:
    batches = watched.timings.query("operation == 'DATA'")
    delayed = (batches["elapsed_ms"] > 200).groupby(batches["rank"]).sum()  # the first also reads the text
    assert delayed.idxmax() == 2
    assert 3 <= delayed[2] < 0.5 * len(batches.query("rank == 2"))


@live
@pytest.mark.serial
def test_what_was_told_of_it_is_shown_at_the_end(watched: Trained) -> None:
    assert "== verdicts.jsonl" in watched.stdout
    assert "== at the endpoint" in watched.stdout
