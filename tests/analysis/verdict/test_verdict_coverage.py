"""Where nobody can be judged that is said, and not that all is well."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from policy_runs import leaving
from rank_tables import as_polars
from simulated_runs import CLOCK_OFFSETS_S, data_parallel, factors
from slow import slow
from timing_files import EPOCH_S, record, write_sidecar, write_table, write_timing_file

from timing_logger import read_timings
from timing_logger.analysis import (
    Verdict,
    efficiencies,
    match_collectives,
    overlap,
    scores,
    stragglers,
    stragglers_and_windows,
    summarize,
    summarize_ranks,
)
from timing_logger.analysis.rows.files import different_runs
from timing_logger.cli import main
from timing_logger.errors import TableError
from timing_logger.report import evidence_sentences
from timing_logger.report.html import report_html
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._verdict import judgement
from timing_logger.results.facts import FewSteps, LeavesLate, MostlyTransfers
from timing_logger.schema.record import NS_PER_S
from timing_logger.schema.timing_files import sidecar_path
from timing_logger.words.not_told import reason
from timing_logger.words.verdict import verdict_sentence


@functools.cache
def run(steps: int = 60, ranks: int = 4) -> pd.DataFrame:
    return data_parallel(factors(steps, ranks, noise=0.05, seed=7))


@functools.cache
def slow_run() -> pd.DataFrame:
    factor = factors(60, 4, noise=0.05, seed=7)
    factor[:, 2] *= 2
    return data_parallel(factor)


def without_any_time(timings: pd.DataFrame) -> pd.DataFrame:
    return timings.assign(elapsed_ms=np.nan, start_counter=np.nan, end_counter=np.nan)


BY_HAND = pytest.mark.slow("test_verdict_coverage_by_hand.py has each reason")
INCONCLUSIVE = {
    "no rows": (run().head(0), "there are no rows"),
    "one rank": (run(ranks=1), "only one rank is recorded"),
    "roles of one": (run().assign(role=run()["rank"]), "every rank is alone in its role, so none has peers"),
    "no times": (without_any_time(run()), "of no step it is known how long a rank worked"),
    "only waits": (
        run().query("operation == 'ALLREDUCE' and iteration == 0"), "of no step it is known how long"
    ),
    "two steps": (run(steps=2), "fewer than 3 steps are known of any two ranks of one role"),
}  # fmt: skip


# -- nobody --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timings", "why"),
    [
        pytest.param(*its, id=name, marks=[] if name in ("no rows", "two steps") else [BY_HAND])
        for name, its in INCONCLUSIVE.items()
    ],
)
def test_where_nobody_can_be_compared_the_verdict_says_so_and_why(timings: pd.DataFrame, why: str) -> None:
    verdict = stragglers(timings)
    assert (verdict.verdict, verdict.judged) == ("healthy", False)
    assert reason(verdict.why).startswith(why)
    assert verdict.unjudged_ranks == tuple(sorted(set(timings["rank"])))


@pytest.mark.parametrize(
    "timings", [pytest.param(run(), id="healthy"), slow(slow_run(), "as of a healthy run", id="slow")]
)
def test_where_all_can_be_compared_nothing_is_left_open(timings: pd.DataFrame) -> None:
    verdict = stragglers(timings)
    assert (verdict.judged, verdict.why, verdict.unjudged_ranks) == (True, None, ())


def test_one_rank_that_slowed_down_against_its_past_is_a_finding() -> None:
    factor = factors(80, 1)
    factor[40:] *= 2
    verdict = stragglers(data_parallel(factor))
    assert (verdict.verdict, verdict.judged, verdict.unjudged_ranks) == ("group-wide", True, (0,))


@pytest.mark.slow("test_verdict_coverage_by_hand.py has of which ranks too little is known")
def test_a_rank_of_which_nothing_is_known_is_listed_beside_a_healthy_verdict() -> None:
    timings = run().copy()
    timings.loc[timings["rank"] == 3, "status"] = "error:RuntimeError"
    verdict = stragglers(timings)
    assert (verdict.verdict, verdict.judged, verdict.unjudged_ranks) == ("healthy", True, (3,))


@pytest.mark.slow("test_own_times.py has when steps are few")
def test_few_steps_in_which_nobody_was_slow_are_said_to_be_few() -> None:
    assert FewSteps(12, nobody_is_slow=True) in stragglers(run(steps=12)).evidence
    assert not any("Only" in sentence for sentence in evidence_sentences(stragglers(run(steps=20))))


# -- what is said --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_table(tmp_path_factory.mktemp("one"), run(ranks=1)))


def test_the_text_does_not_call_it_healthy(one_rank: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stragglers", one_rank]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Verdict: nobody could be judged: only one rank is recorded.\n")
    assert "healthy" not in said


def test_a_script_can_tell(one_rank: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stragglers", one_rank, "--json", "--fail-on", "rank,unjudged"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["judged"]
    assert found["why"] == {"fact": "one-rank", "text": "only one rank is recorded"}
    assert found["unjudged_ranks"] == [0]


@pytest.mark.slow(
    "test_a_script_can_tell has the option, and a run in which all can be compared is judged above"
)
def test_a_healthy_run_does_not_fail_on_unjudged(tmp_path: Path) -> None:
    assert main(["stragglers", str(write_table(tmp_path, run())), "--fail-on", "rank,unjudged"]) == 0


@pytest.mark.slow("the text says the same; test_own_times_of_suspects.py has the headline of a page")
def test_the_page_does_not_call_it_healthy(one_rank: str) -> None:
    page = report_html(read_timings(one_rank))
    assert "Nobody could be judged: only one rank is recorded." in page
    assert 'class="verdict unjudged"' in page
    assert "No rank is slow." not in page


@pytest.mark.slow("one pass of watch; the text of stragglers says the same")
def test_watching_does_not_call_it_healthy(one_rank: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["watch", one_rank, "--once", "--window", "1e9"])
    assert "nobody could be judged: only one rank is recorded" in capsys.readouterr().out


# -- different runs ------------------------------------------------------------------------------------


def changed_sidecar(folder: Path, rank: int, **changed: Any) -> None:
    path = sidecar_path(folder / f"timing-rank{rank}.csv")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


@pytest.fixture(scope="module")
def of_one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    timings = slow_run().copy()
    for name in ("start_counter", "end_counter"):  # of processes that began together
        timings[name] -= CLOCK_OFFSETS_S * (1 + timings["rank"])
    return write_table(tmp_path_factory.mktemp("mixed"), timings)


@pytest.fixture
def folder(of_one_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(of_one_run, tmp_path / "mixed")


LATER_NS = (EPOCH_S + 7200) * NS_PER_S
SIZES = "4 of ranks 0, 1 and 2, 2 of rank 3"
MIXED = {
    "another number of ranks": ({"world_size": 2}, f"the number of ranks is {SIZES}"),
    "another boot": (
        {"boot_id": "other"}, " was rebooted between the files of ranks 0, 1 and 2 and those of rank 3"
    ),
    "two hours later": (
        {"started_unix_ns": LATER_NS, "updated_unix_ns": LATER_NS + NS_PER_S},
        "ranks 0, 1 and 2 had ended 7140 s before rank 3 began",
    ),
}  # fmt: skip


@pytest.mark.slow("ranks that differ a little are compared below")
def test_ranks_of_one_run_are_compared(of_one_run: Path) -> None:
    assert stragglers(read_timings(of_one_run)).ranks == (2,)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param(*MIXED["another number of ranks"], marks=pytest.mark.slow("as after another boot")),
        MIXED["another boot"],
        pytest.param(*MIXED["two hours later"], marks=pytest.mark.slow("of files without sidecars below")),
    ],
    ids=MIXED,
)
def test_ranks_of_different_runs_are_not_compared(folder: Path, changed: dict[str, Any], why: str) -> None:
    changed_sidecar(folder, 3, **changed)
    if "started_unix_ns" in changed:
        move_rows(folder / "timing-rank3.csv")
    timings = read_timings(folder)
    verdict, found = stragglers_and_windows(timings)
    assert (verdict.judged, verdict.ranks) == (False, ())
    assert why in reason(verdict.why)
    assert len(found) == 0
    assert scores(timings)["score"].isna().all()


def move_rows(path: Path) -> None:
    """Two hours later, in the hours of the time stamps."""
    path.write_text(path.read_text().replace("T14:3", "T16:3"))


def test_files_without_sidecars_are_told_apart_by_their_rows(folder: Path) -> None:
    for rank in range(4):
        sidecar_path(folder / f"timing-rank{rank}.csv").unlink()
    assert different_runs(read_timings(folder).attrs["files"]) == ""
    move_rows(folder / "timing-rank3.csv")
    assert "had ended" in different_runs(read_timings(folder).attrs["files"])


@pytest.mark.slow("one answer that compares ranks warns of it below")
def test_the_summary_and_the_page_warn_of_different_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed_sidecar(folder, 3, world_size=2)
    main(["summary", str(folder)])
    said = " ".join(capsys.readouterr().out.split())
    assert f"look like those of different runs: the number of ranks is {SIZES}" in said
    main(["summary", str(folder), "--json"])
    assert json.loads(capsys.readouterr().out)["different_runs"].startswith("the number of ranks")
    headline = judgement(Findings.of(read_timings(folder))).headline
    assert "Nobody could be judged: the files look like those of different runs" in headline


@pytest.mark.parametrize(
    "question", ["bandwidth", *(slow(name, "as of bandwidth") for name in ("waits", "overlap"))]
)
def test_answers_that_compare_ranks_warn_of_different_runs(
    question: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "look like those of different runs: ranks 0, 1 and 2 had ended 7140 s before rank 3 began"
    main([question, str(folder)])
    assert "different runs" not in capsys.readouterr().out
    changed_sidecar(folder, 3, started_unix_ns=LATER_NS, updated_unix_ns=LATER_NS + NS_PER_S)
    main([question, str(folder)])
    assert warning in " ".join(capsys.readouterr().out.split())
    main([question, str(folder), "--ranks", "0-2"])
    assert "different runs" not in capsys.readouterr().out


def test_a_restart_into_the_same_folder_is_one_run(tmp_path: Path) -> None:
    for rank in range(2):
        for incarnation, start_s in ((1, 0.0), (2, 7200.0)):
            rows = [record("FORWARD", start_s + 1, iteration=0)]
            path = write_timing_file(tmp_path, rank, rows, incarnation=incarnation)
            write_sidecar(path, start_s=start_s, end_s=start_s + 60)
    assert different_runs(read_timings(tmp_path, incarnations="all").attrs["files"]) == ""


def test_ranks_whose_host_and_start_differ_a_little_are_of_one_run(folder: Path) -> None:
    changed_sidecar(folder, 3, host="node1", boot_id="other", started_unix_ns=(EPOCH_S + 50) * NS_PER_S)
    assert stragglers(read_timings(folder)).judged


# -- rows of no rank -----------------------------------------------------------------------------------


def as_pandas(timings: pd.DataFrame) -> pd.DataFrame:
    return timings


ANALYSES = [summarize, summarize_ranks, scores, stragglers, overlap, efficiencies, match_collectives]
OF_POLARS = pytest.mark.slow("one table of polars is quick, and all tables are opened in one place")


@pytest.mark.parametrize(
    ("analysis", "library"),
    [
        *((analysis, as_pandas) for analysis in ANALYSES),
        (ANALYSES[0], as_polars),
        *(pytest.param(analysis, as_polars, marks=OF_POLARS) for analysis in ANALYSES[1:]),
    ],
)
def test_a_row_of_no_rank_is_an_error_that_names_the_column_and_the_way_out(
    analysis: Any, library: Any
) -> None:
    timings = run(steps=3).copy()
    timings["rank"] = timings["rank"].astype("Float64").where(timings.index != 5)
    with pytest.raises(TableError, match=r"the column 'rank' is no whole number in 1 of 60 rows. .*notna"):
        analysis(library(timings))
    with pytest.raises(TableError, match=r"no column 'rank'.*assign\(rank=0\)"):
        analysis(library(timings.drop(columns="rank")))


def test_ranks_that_are_whole_but_floats_will_do() -> None:
    timings = slow_run()
    verdict = stragglers(timings.assign(rank=timings["rank"].astype(float)))
    assert isinstance(verdict, Verdict)
    assert verdict.ranks == (2,)


# -- ranks that leave late ------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [slow(1, "as in every tenth step"), 10])
def test_a_rank_that_leaves_communication_late_is_told_and_the_run_not_called_healthy(every: int) -> None:
    verdict = stragglers(leaving(5.0 * every, every=every))
    assert (verdict.judged, type(verdict.why)) == (False, LeavesLate)
    assert isinstance(verdict.why, LeavesLate)
    assert (verdict.why.rank, verdict.why.late_ms) == (1, pytest.approx(5.0, abs=0.1))
    assert "rank 1 leaves collectives later than its peers, by 5.0 ms a step" in verdict_sentence(verdict)


@pytest.mark.slow("both at once; each of them is quick")
def test_in_a_run_that_mostly_transfers_that_is_told_and_who_leaves_late_beside_it() -> None:
    verdict = stragglers(leaving(5.0, transfer_ms=40.0))
    assert (verdict.verdict, verdict.operation, verdict.judged) == ("communication", "ALLREDUCE", True)
    assert (verdict.why, verdict.unjudged_ranks, verdict.ranks) == (None, (), ())
    assert {MostlyTransfers, LeavesLate} <= set(map(type, verdict.evidence))


@pytest.mark.slow("test_verdict_coverage_by_hand.py has what is no leaving late")
def test_ranks_that_wait_for_one_that_leaves_with_the_others_are_not_told_that_it_leaves_late() -> None:
    assert stragglers(leaving(0.0)).judged
    assert stragglers(leaving(0.0, works_ms=26.0)).ranks == (1,)


@pytest.mark.slow("test_verdict_coverage_by_hand.py takes the error of clocks off what is late")
def test_nobody_is_said_to_leave_late_by_less_than_the_clocks_may_be_wrong() -> None:
    assert not stragglers(leaving(8.0, clocks_s=1e-3)).judged
    assert stragglers(leaving(8.0, clocks_s=4e-3)).judged
    assert stragglers(leaving(8.0, every=10, clocks_s=float("nan"))).judged


def test_a_root_that_has_more_to_do_than_the_others_is_not_said_to_leave_late() -> None:
    timings = leaving(5.0)
    gathered = timings.assign(operation=timings["operation"].replace("ALLREDUCE", "GATHER"), peer=1)
    assert not isinstance(stragglers(gathered).why, LeavesLate)
