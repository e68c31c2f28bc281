"""Every command names the 20 worst of many ranks, says how many it leaves out, and shows all if asked to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from crowds import crowd, file_of
from slow import slow
from timing_files import write_table

from timing_logger import analysis
from timing_logger.analysis import RunEnd, Verdict
from timing_logger.cli import main
from timing_logger.live.now import snapshot_text
from timing_logger.live.watcher import RankNow, Snapshot
from timing_logger.report import (
    account_text,
    bandwidth_text,
    clocks_text,
    hang_text,
    stragglers_text,
    summary_text,
    waits_text,
)
from timing_logger.report._limits import MOST_LINES, MOST_SETS
from timing_logger.results.run_end import RankEnd
from timing_logger.results.verdict import Suspect

N_RANKS = 30
SLOW = 17
N_FILES = 24
N_STEPS = 3


@pytest.fixture(scope="module")
def run() -> pd.DataFrame:
    return crowd(N_RANKS, N_STEPS, slow=SLOW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = crowd(N_FILES, N_STEPS, slow=7)
    run.attrs = {}  # pandas would copy them at every step
    return write_table(tmp_path_factory.mktemp("many"), run)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], folder: Path) -> Callable[..., str]:
    def asked(command: str, *options: str) -> str:
        name, *its = command.split()
        assert main([name, str(folder), *its, *options]) == 0
        return capsys.readouterr().out

    return asked


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def ranks_first(text: str) -> list[int]:
    """The first numbers of the lines that begin with the number of a rank."""
    return [int(number) for number in re.findall(r"^(\d+) ", text, re.MULTILINE)]


# -- each command --------------------------------------------------------------------------------------

COMMANDS = [
    "summary --by rank",
    slow("overlap", "what other commands show of many ranks, shown by the same function"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_twenty_of_many_ranks_and_says_how_many_it_leaves_out(
    ask: Callable[..., str], command: str
) -> None:
    said = ask(command)
    assert len(ranks_first(said)) == MOST_LINES
    assert "Of 24 rows these are the 20 with most" in in_one_line(said)
    assert "4 are left out. --all shows all." in in_one_line(said)


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, *(slow(name, "a text that a direct test shows whole") for name in ("waits", "summary"))],
)
def test_a_command_shows_all_ranks_if_asked_to_and_then_leaves_nothing_out(
    ask: Callable[..., str], command: str
) -> None:
    said = ask(command, "--all")
    assert set(range(N_FILES)) <= set(ranks_first(said))
    assert "left out" not in said


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("summary --by rank", "operations"),
        *(
            pytest.param(*asked, marks=pytest.mark.slow("what shows fewer in text has all, as of the others"))
            for asked in (("overlap", "overlap"), ("summary", "ranks"), ("waits", "waits"))
        ),
    ],
)
def test_json_has_all_ranks(ask: Callable[..., str], command: str, table: str) -> None:
    rows = json.loads(ask(command, "--json"))[table]
    assert {row["rank"] for row in rows} == set(range(N_FILES))


def test_totals_that_are_not_by_rank_are_all_shown(ask: Callable[..., str]) -> None:
    said = ask("summary --by iteration,operation")
    assert len(ranks_first(said)) == N_STEPS * 5
    assert "left out" not in said


# -- the account ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def account(run: pd.DataFrame) -> str:
    return account_text(analysis.account(run), 100, everything=False)


def test_the_account_names_first_the_rank_that_holds_up_all_others(account: str) -> None:
    assert ranks_first(account.split("\n\n")[0])[0] == SLOW
    assert "Of 30 ranks these are the 20 that others waited for longest" in in_one_line(account)


def test_the_other_ranks_have_a_line_together(account: str) -> None:
    (others,) = re.findall(r"^10 others +([\d.]+)", account, re.MULTILINE)
    (whole,) = re.findall(r"^all +([\d.]+) ", account.split("\n\n")[0], re.MULTILINE)
    assert float(others) == pytest.approx(float(whole) / 3, rel=0.02)


# -- bandwidth -----------------------------------------------------------------------------------------


def of_groups(n_groups: int, n_sizes: int) -> pd.DataFrame:
    """The bandwidths of groups of which each is slower than the one before, at every size."""
    rows = [
        {
            "operation": "ALLREDUCE", "group": f"pair{group}", "group_size": 2, "count": 3,
            "size_class_bytes": 1024.0 * 2**size, "message_size_bytes": 1000.0 * 2**size, "time_ms": 1.0,
            "busbw_gb_per_s": 2.0**size / (1 + group), "transfer_ms": np.nan,
            "transfer_busbw_gb_per_s": np.nan, "algbw_gb_per_s": 1.0, "transfer_algbw_gb_per_s": np.nan,
        }
        for size in range(n_sizes)
        for group in range(n_groups)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_of_many_groups_those_are_shown_that_are_slowest_for_their_size() -> None:
    said = bandwidth_text(of_groups(30, 2), 140, everything=False)
    shown = re.findall(r"^ALLREDUCE +pair(\d+)", said, re.MULTILINE)
    assert sorted(map(int, shown)) == sorted([*range(20, 30)] * 2)
    assert "Of 60 rows these are the 20 that are slowest beside other groups" in in_one_line(said)


def test_many_sizes_of_few_groups_are_all_shown() -> None:
    said = bandwidth_text(of_groups(2, 30), 140, everything=False)
    assert said.count("ALLREDUCE") == 60
    assert "left out" not in said


def test_all_groups_are_shown_if_asked_for() -> None:
    assert bandwidth_text(of_groups(30, 2), 140, everything=True).count("ALLREDUCE") == 60


# -- waits by operation --------------------------------------------------------------------------------


def test_of_the_operations_of_many_groups_those_with_most_waiting_are_shown() -> None:
    rows = [
        {
            "operation": "ALLREDUCE", "group": f"tp{rank // 2}", "rank": rank, "incarnation": 1, "count": 1,
            "wait_ms": float(rank), "clock_free_wait_ms": float(rank), "arrival_skew_ms": 1.0,
            "transfer_ms": 1.0, "times_last": 0, "clock_violations": 0, "uncertainty_ms": 0.1,
        }
        for rank in range(60)
    ]  # fmt: skip
    messages = pd.DataFrame({"late_sender_ms": [], "late_receiver_ms": []})
    said = waits_text(pd.DataFrame(rows), messages, {}, 100, everything=False)
    shown = {int(group) for group in re.findall(r"^ALLREDUCE +tp(\d+)", said, re.MULTILINE)}
    assert shown == set(range(30 - MOST_SETS, 30))
    assert "Of 30 operations of groups these are the 8 with most waiting; 22 are left out." in in_one_line(
        said
    )


# -- the verdict, and the end --------------------------------------------------------------------------


def suspected(n_ranks: int) -> Verdict:
    suspects = tuple(Suspect((rank,), "FORWARD", 0.01, 0.5) for rank in range(n_ranks))
    return Verdict(verdict="suspect", suspects=suspects)


def windows_of(n_ranks: int) -> pd.DataFrame:
    known = {
        "operation": "FORWARD",
        "kind": "bounded",
        "labels": "",
        "first_iteration": 0,
        "last_iteration": 9,
    }
    figures = {"iterations": 10, "ratio": 2.0, "score": 0.5, "excess_ms": 7.0}
    return pd.DataFrame([{"rank": rank, **known, **figures} for rank in range(n_ranks)])


def test_of_many_suspects_and_windows_the_costliest_are_shown() -> None:
    said = stragglers_text(suspected(30), windows_of(40), 100)
    assert "Of 30 suspects these are the 20 that come first; 10 are left out." in in_one_line(said)
    assert "Of 40 windows these are the 20 of the greatest excess; 20 are left out." in in_one_line(said)


def test_all_suspects_and_windows_are_shown_if_asked_for() -> None:
    said = stragglers_text(suspected(30), windows_of(40), 100, everything=True)
    assert len(ranks_first(said)) == 70
    assert "left out" not in said


def hung(n_ranks: int) -> RunEnd:
    ranks = tuple(
        RankEnd(
            rank=rank, incarnation=1, closed=False, gone=False, killed=False, silent_s=1.0,
            operation="FORWARD", layer_name="", iteration=3, status="ok", ended_s=1.0, busy_with="",
            busy_s=None, idle_stack=(), signal="",
        )
        for rank in range(n_ranks)
    )  # fmt: skip
    return RunEnd(state="hang", culprits=(n_ranks - 1,), ranks=ranks, sentences=("Rank 29 hangs.",))


def test_of_many_ranks_that_hang_the_culprit_is_shown_and_the_rest_is_counted() -> None:
    said = hang_text(hung(N_RANKS), 100)
    assert N_RANKS - 1 in ranks_first(said)
    assert len(ranks_first(said)) == MOST_LINES
    assert "Of 30 ranks these are the 20 that explain the hang, and some others; 10" in in_one_line(said)


def test_all_ranks_that_hang_are_shown_if_asked_for() -> None:
    assert ranks_first(hang_text(hung(N_RANKS), 100, everything=True)) == list(range(N_RANKS))


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.slow("many files; the limits themselves are quick")
def test_of_many_files_that_are_not_complete_some_are_shown_and_the_rest_is_counted(
    run: pd.DataFrame,
) -> None:
    run = run.copy()
    run.attrs = crowd(N_RANKS, 1, slow=SLOW, closed=False).attrs
    overview = analysis.overview(run)
    said = summary_text(overview)
    assert len(re.findall(r"^timing-rank\d+\.csv  ", said, re.MULTILINE)) == MOST_LINES
    assert "Of 30 files that are not complete these are the 20 that come first" in in_one_line(said)
    whole = summary_text(overview, everything=True)
    assert len(re.findall(r"^timing-rank\d+\.csv  ", whole, re.MULTILINE)) == N_RANKS


def test_the_same_trouble_of_many_sidecars_is_said_once(run: pd.DataFrame) -> None:
    files: Any = [file_of(rank, run, schema_version=99) for rank in range(N_RANKS)]
    said = clocks_text(files, 100)
    assert said.count("schema version") == 1
    assert said.startswith("30 files, such as timing-rank0.csv:")


def test_of_many_different_troubles_twenty_are_said_and_the_rest_is_counted(run: pd.DataFrame) -> None:
    files: Any = [file_of(rank, run, schema_version=100 + rank) for rank in range(N_RANKS)]
    said = in_one_line(clocks_text(files, 100))
    assert said.count("schema version") == MOST_LINES
    assert (
        "10 more sentences of this kind, on 10 files, are left out. timing-logger summary --all has" in said
    )


def test_nothing_is_said_of_what_is_left_out_where_nothing_is() -> None:
    verdict = suspected(MOST_LINES)
    assert "left out" not in stragglers_text(verdict, windows_of(MOST_LINES), 100)


# -- a run in progress ---------------------------------------------------------------------------------


def now(rank: int, **changed: Any) -> RankNow:
    usual = RankNow(
        rank=rank, incarnation=1, written=100, rows_per_s=10.0, iterations_per_s=2.0, iteration=50,
        epoch=None, communication_share=0.1, waited_share=0.0, dropped=0, unfinished=0, silent_s=1.0,
        closed=False,
    )  # fmt: skip
    return usual._replace(**changed)


def watched(**changed_of: dict[str, Any]) -> Snapshot:
    ranks = [now(rank, **changed_of.get(f"rank{rank}", {})) for rank in range(N_RANKS)]
    return Snapshot(ranks, Verdict(verdict="healthy"), 30.0, RunEnd(state="running"))


@pytest.mark.parametrize(
    "worse",
    [{"iteration": 49}, {"iteration": None}, {"silent_s": 9.0}, {"dropped": 1, "iteration": 60}],
    ids=["behind", "nothing", "silent", "lost"],
)
def test_of_many_ranks_in_progress_the_one_that_is_worst_off_is_shown(worse: dict[str, Any]) -> None:
    said = snapshot_text(watched(rank25=worse), 120)
    assert 25 in ranks_first(said)
    assert len(ranks_first(said)) == MOST_LINES
    assert "10 are left out. --all shows all." in in_one_line(said)


def test_a_slow_rank_in_progress_is_shown_though_it_is_ahead() -> None:
    look = watched(rank25={"iteration": 60})._replace(verdict=Verdict(verdict="rank", ranks=(25,)))
    assert 25 in ranks_first(snapshot_text(look, 120))


def test_all_ranks_in_progress_are_shown_if_asked_for() -> None:
    said = snapshot_text(watched(), 120, everything=True)
    assert ranks_first(said) == list(range(N_RANKS))
    assert "left out" not in said
