"""``timing-logger run`` says of a job that compiles again and again what it loses by that."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import warm
from timed_jobs import PROGRAMS, Job, said_by_the_command, timed_warm, torchrun

from timing_logger import analysis, read_timings
from timing_logger.results.facts import Pauses

pytestmark = pytest.mark.slow("that compilations and imports are rows of their steps is quick without a job")
beside_nothing = pytest.mark.serial  # what runs beside it makes the ranks' times differ


def recompiling(folder: Path, *ranks: int) -> tuple[Job, pd.DataFrame]:
    """Run a training in which these ranks are given a new length in each step, and read its rows."""
    job = timed_warm(folder, [*torchrun(warm.python()), PROGRAMS / "recompiling.py", *ranks])
    assert job.returncode == 0, job.stderr
    return job, read_timings(folder)


@beside_nothing
def test_a_rank_that_alone_compiles_again_is_named_with_that(tmp_path: Path) -> None:
    job, rows = recompiling(tmp_path, 1)
    verdict = analysis.stragglers(rows)
    assert (verdict.ranks, verdict.operation) == ((1,), "COMPILE")
    assert "TORCH_LOGS=recompiles" in said_by_the_command(job)
    compilations = rows[rows["operation"] == "COMPILE"]
    assert compilations.groupby(["rank", "phase"]).size().to_dict() == {
        (0, "compile"): 1,
        (1, "compile"): 1,
        (1, "recompile"): 19,
    }
    assert set(compilations["layer_name"]) == {"Sequential"}


@beside_nothing
def test_where_all_ranks_compile_again_nobody_is_named_and_the_cost_is_told(tmp_path: Path) -> None:
    job, rows = recompiling(tmp_path, 0, 1)
    verdict = analysis.stragglers(rows)
    costs = {fact.operation: fact.run_share for fact in verdict.evidence if isinstance(fact, Pauses)}
    assert verdict.ranks == ()
    assert costs["COMPILE"] == max(costs.values()) > 0.2
    assert "Without what torch.compile compiled after the first step, the run would be" in job.stderr


def test_what_is_imported_in_a_step_is_a_row_of_that_step_and_what_is_imported_before_is_none(
    tmp_path: Path,
) -> None:
    lasts_60_ms = "import time\nbegin = time.perf_counter()\nwhile time.perf_counter() < begin + 0.06: pass\n"
    for name in ("early", "late"):
        (tmp_path / f"{name}.py").write_text(lasts_60_ms)
    (tmp_path / "program.py").write_text(
        "import early, torch\n"
        "layer = torch.nn.Linear(1, 1)\n"
        "optimizer = torch.optim.SGD(layer.parameters())\n"
        "for step in range(4):\n"
        "    if step == 2: import late\n"
        "    layer(torch.ones(1)).backward()\n"
        "    optimizer.step()\n"
    )
    job = timed_warm(tmp_path / "logs", [warm.python(), tmp_path / "program.py"], "--quiet")
    assert job.returncode == 0, job.stderr
    rows = read_timings(tmp_path / "logs")
    imports = rows[(rows["operation"] == "IMPORT") & rows["layer_name"].isin(["early", "late"])]
    assert imports[["layer_name", "iteration", "status"]].to_numpy().tolist() == [["late", 2, "ok"]]
