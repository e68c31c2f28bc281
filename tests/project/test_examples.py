"""The examples run as their texts say."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _straggler import Straggler
from limits import scaled
from mpi_runner import Run, run_on_ranks
from places import ROOT
from processes import rows
from slow import slow

EXAMPLES = ROOT / "examples"
TRAINING = EXAMPLES / "train_digits_mpi.py"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
EPOCHS = 15


class Trained(NamedTuple):
    """A training with default settings, but for the epochs."""

    run: Run
    log_dir: Path
    ranks: int
    epochs: int


@pytest.fixture(
    scope="module",
    params=[slow((4, EPOCHS), "fifteen epochs on four ranks"), (2, 2)],
    ids="{0[0]} ranks".format,
)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    ranks, epochs = request.param
    log_dir = tmp_path_factory.mktemp("trained")
    run = run_on_ranks(ranks, TRAINING, "--log-dir", str(log_dir), "--epochs", str(epochs))
    assert run.returncode == 0, run.stderr
    return Trained(run, log_dir, ranks, epochs)


def test_training_learns_to_read_digits(trained: Trained) -> None:
    accuracy = re.search(r"^test accuracy (\d+\.\d)%", trained.run.stdout, re.MULTILINE)
    assert accuracy is not None, trained.run.stdout
    assert float(accuracy[1]) > (95 if trained.epochs == EPOCHS else 70)


def test_training_shows_progress_once_per_epoch_and_not_once_per_rank(trained: Trained) -> None:
    assert len(re.findall(r"^epoch ", trained.run.stdout, re.MULTILINE)) == trained.epochs


def test_training_writes_as_many_rows_as_its_counters_say(trained: Trained) -> None:
    for rank in range(trained.ranks):
        sidecar = json.loads((trained.log_dir / f"timing-rank{rank}.meta.json").read_text())
        counters = sidecar["counters"]
        written = len(rows(trained.log_dir / f"timing-rank{rank}.csv"))
        assert written == counters["written"] == counters["accepted"]
        assert counters["dropped"] == counters["pending"] == 0


def test_training_writes_one_file_per_rank(trained: Trained) -> None:
    files = {file.name for file in trained.log_dir.glob("*.csv")}
    assert files == {f"timing-rank{rank}.csv" for rank in range(trained.ranks)}


def test_training_records_every_operation_of_every_iteration(trained: Trained) -> None:
    seen = {(row[4], row[1]) for row in rows(trained.log_dir / "timing-rank0.csv")}
    iterations = {iteration for name, iteration in seen if name == "DATA"}
    assert iterations == set(map(str, range(len(iterations))))
    assert len(iterations) % trained.epochs == 0
    assert trained.ranks != 4 or len(iterations) == 11 * EPOCHS
    for operation in ("DATA", "FORWARD", "BACKWARD", "ALLREDUCE", "WAIT"):
        assert {iteration for name, iteration in seen if name == operation} == iterations


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The table that comparing the all-reduces prints: line -> dense, topk, gtopk, oktopk."""
    log_dir = tmp_path_factory.mktemp("compared")
    run = run_on_ranks(4, EXAMPLES / "compare_compression.py", "--log-dir", str(log_dir), limit_s=scaled(400))
    assert run.returncode == 0, run.stderr
    cells = re.findall(r"^(.+?, (?:%|s|MB|ms)) +(.+)$", run.stdout, re.MULTILINE)
    return {line: [float(cell.replace("-", "nan")) for cell in rest.split()] for line, rest in cells}


@pytest.mark.slow("four trainings, one for each all-reduce")
def test_every_all_reduce_learns_to_within_a_point_of_the_dense_one(compared: dict[str, list[float]]) -> None:
    dense, *sparse = compared["test accuracy, %"]
    assert dense > 95
    assert all(accuracy >= dense - 1.0 for accuracy in sparse)


@pytest.mark.slow("four trainings, one for each all-reduce")
def test_sparse_all_reduces_move_fewer_bytes(compared: dict[str, list[float]]) -> None:
    dense, *sparse = compared["bytes moved, MB"]
    assert max(sparse) < dense / 4


@pytest.mark.slow("four trainings, one for each all-reduce")
def test_the_comparison_shows_each_operation_of_each_all_reduce(compared: dict[str, list[float]]) -> None:
    shown = {line: [ms == ms for ms in cells] for line, cells in compared.items()}
    assert shown["ALLREDUCE, ms"] == shown["WAIT, ms"] == [True] * 4
    assert (
        shown["COMPRESS, ms"]
        == shown["DECOMPRESS, ms"]
        == shown["ALLGATHER, ms"]
        == [False, True, True, True]
    )
    assert shown["SEND, ms"] == shown["RECV, ms"] == shown["BCAST, ms"] == [False, False, True, False]
    assert shown["ALLTOALLV, ms"] == shown["ALLGATHERV, ms"] == [False, False, False, True]


@pytest.mark.slow("a job; what is malformed is parsed below")
def test_a_malformed_straggler_is_refused_before_training(tmp_path: Path) -> None:
    run = run_on_ranks(1, TRAINING, "--straggler", "soon", "--log-dir", str(tmp_path / "logs"))
    assert run.returncode != 0
    assert "argument --straggler: 'soon' is neither RANK:MS nor RANK:MS:FIRST-LAST" in run.stderr
    assert not (tmp_path / "logs").exists()


@pytest.mark.slow("a job; what is malformed is parsed below, and what is no rank is refused by train_ddp too")
def test_a_straggler_that_is_no_rank_is_refused(tmp_path: Path) -> None:
    run = run_on_ranks(1, TRAINING, "--straggler", "1:30", "--log-dir", str(tmp_path / "logs"))
    assert run.returncode != 0
    assert "there is no rank 1 among 1 ranks" in run.stderr
    assert not (tmp_path / "logs").exists()


MALFORMED = "", "2", "2:", ":30", "-1:30", "2:-30", "2:nan", "2:inf", "2:30:", "2:30:5", "2:30:5-", "2:30:5-x"


@pytest.mark.parametrize("text", [*MALFORMED, "\N{ARABIC-INDIC DIGIT TWO}:30"])
def test_straggler_refuses(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="neither RANK:MS nor RANK:MS:FIRST-LAST"):
        Straggler.parse(text)


def test_straggler_refuses_an_empty_range() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="FIRST comes after LAST"):
        Straggler.parse("2:30:9-5")


def test_straggler_delays_the_iterations_named_and_no_others() -> None:
    straggler = Straggler.parse("2:30:5-7")
    assert [i for i in range(20) if straggler.delays(2, i)] == [5, 6, 7]


def test_straggler_without_a_range_delays_every_iteration_of_its_rank_alone() -> None:
    straggler = Straggler.parse("2:0.5")
    assert {rank for rank in range(4) for i in range(20) if straggler.delays(rank, i)} == {2}
    assert straggler.delays(2, 10**9)


@pytest.mark.slow("a job; that a wrapped Allreduce is a row is quick with the snippets of README")
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_wrapped_allreduce_records_each_call(tmp_path: Path, ranks: int) -> None:
    run = run_on_ranks(ranks, EXAMPLES / "wrap_allreduce.py", str(tmp_path))
    assert run.returncode == 0, run.stderr
    for rank in range(ranks):
        assert f"rank {rank}: 10 rows in {tmp_path}/timing-rank{rank}.csv" in run.stdout
        written = rows(tmp_path / f"timing-rank{rank}.csv")
        assert [(row[1], row[4], row[6]) for row in written] == [
            (str(i), "ALLREDUCE", "4000000") for i in range(10)
        ]


def test_the_code_of_the_first_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib (pip install '.[test]')")
    monkeypatch.setattr(pyplot, "show", pyplot.close)
    monkeypatch.chdir(NOTEBOOKS[0].parent)
    cells = json.loads(NOTEBOOKS[0].read_text(encoding="utf-8"))["cells"]
    exec("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"), {})


@pytest.mark.slow("it starts a kernel for each; the code of the first runs above")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="needs Jupyter (pip install '.[test]')")
    nbformat = pytest.importorskip("nbformat")
    cells = nbformat.read(notebook, as_version=4)
    place = {"metadata": {"path": str(notebook.parent)}}
    nbclient.NotebookClient(cells, timeout=scaled(300), kernel_name="python3", resources=place).execute()


def outputs(notebook: Path) -> list[dict[str, Any]]:
    """What its cells showed when it was kept."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_plots_and_small(notebook: Path) -> None:
    assert any("image/png" in output.get("data", {}) for output in outputs(notebook))
    assert notebook.stat().st_size < 150_000


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_failures_warnings_and_paths_of_a_machine(notebook: Path) -> None:
    shown = outputs(notebook)
    assert {output["output_type"] for output in shown} <= {"stream", "execute_result", "display_data"}
    assert all(output.get("name") != "stderr" for output in shown)
    words = [text for output in shown for text in texts(output)]
    assert not re.search(r"(?<![\w.<:/])/[\w.-]+/[\w.-]+", "\n".join(words))


def texts(output: dict[str, Any]) -> list[str]:
    """All that is to be read in an output, its pictures apart."""
    data = {kind: text for kind, text in output.get("data", {}).items() if kind.startswith("text/")}
    return ["".join(text) for text in [output.get("text", ""), *data.values()]]
