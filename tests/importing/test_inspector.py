"""Dumps of NCCL Inspector become timing files: collectives, messages, ranks, instants where there are any."""

from __future__ import annotations

import copy
import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from inspector_dumps import (
    FIRST_US,
    N_BYTES,
    RANKS,
    STEPS,
    TRANSFER_US,
    collective,
    line,
    records_of,
    write_dumps,
    write_records,
)

from timing_logger import read_timings
from timing_logger.analysis import (
    account,
    bandwidth,
    efficiencies,
    match_collectives,
    overlap,
    stragglers,
    waits,
)
from timing_logger.errors import NotImportableError, TooLargeError
from timing_logger.importing import import_inspector


def imported(dumps: Path) -> pd.DataFrame:
    import_inspector(dumps, dumps.parent / "out")
    return read_timings(dumps.parent / "out")


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Rows of verbose dumps of which rank 1 is late; no test may change them."""
    return imported(write_dumps(tmp_path_factory.mktemp("late") / "dumps", 1))


def of_records(folder: Path, *records: Any) -> pd.DataFrame:
    """Return the rows of a dump with these records."""
    return imported(write_records(folder / "node0-pid1.log", list(records)))


@pytest.mark.slow("what rows say of a slow rank is quick, and so are the waits for this one")
def test_a_rank_that_comes_late_to_collectives_is_named(late: pd.DataFrame) -> None:
    verdict = stragglers(late)
    assert (verdict.verdict, verdict.ranks) == ("rank", (1,))


@pytest.mark.slow("what rows say of ranks that are alike is quick, of traces of torch.profiler among others")
def test_of_ranks_that_are_alike_none_is_named(tmp_path: Path) -> None:
    assert stragglers(imported(write_dumps(tmp_path / "dumps", None))).ranks == ()


def test_a_row_has_what_the_record_says(tmp_path: Path) -> None:
    first = imported(write_dumps(tmp_path / "dumps", None)).iloc[0]
    named = "operation", "group", "group_size", "seq", "message_size_bytes", "clock", "elapsed_ms"
    assert [first[name] for name in named] == [
        "ALLREDUCE", "DP Group 0 0x7f8c496ae9f661", RANKS, 0, N_BYTES, "device", 3.2,
    ]  # fmt: skip
    assert first["timestamp"].value == FIRST_US * 1000


def test_collectives_match_and_transfers_are_those_of_the_last_to_arrive(late: pd.DataFrame) -> None:
    assert set(match_collectives(late)["state"]) == {"complete"}
    found = waits(late)
    assert len(found) == RANKS * STEPS
    assert found["transfer_ms"].to_numpy() == pytest.approx(TRANSFER_US / 1e3)
    assert found[found["rank"] == 0]["clock_free_wait_ms"].median() == pytest.approx(7.9, abs=0.2)


def test_a_plain_dump_has_no_instants_and_tells_so(tmp_path: Path) -> None:
    dumps = write_dumps(tmp_path / "dumps", 1, verbose=False)
    made = import_inspector(dumps, tmp_path / "out")
    assert made.not_told == ["instants", "clocks", "own work", "end"]
    rows = read_timings(tmp_path / "out")
    found = waits(rows)
    assert found["wait_ms"].isna().all()
    assert set(found["last_arriver"]) == {1}  # by the durations alone
    assert bandwidth(rows)["transfer_ms"].tolist() == [pytest.approx(TRANSFER_US / 1e3)]


def test_without_instants_no_time_is_accounted_for_and_none_is_hidden(tmp_path: Path) -> None:
    rows = imported(write_dumps(tmp_path / "dumps", 1, verbose=False))
    assert account(rows).empty
    assert overlap(rows)[["communication_ms", "exposed_ms", "hidden_ms"]].isna().all(axis=None)
    assert efficiencies(rows)[["useful_mean_ms", "runtime_ms"]].isna().all(axis=None)


def test_dumps_beside_which_another_rank_states_its_instants_are_unknown_alone(late: pd.DataFrame) -> None:
    rows, files = late.copy(), copy.deepcopy([*late.attrs["files"]])
    files[2]["sidecar"]["imported"]["not_told"] = ["instants"]
    rows.attrs["files"] = files
    assert set(account(rows)["rank"]) == {0, 1, 3}


def test_bytes_are_those_of_the_send_buffer(tmp_path: Path) -> None:
    rows = of_records(
        tmp_path,
        *(
            line(0, collective(0, 10, 1000 + i, coll=kind))
            for i, kind in enumerate(("AllGather", "ReduceScatter"))
        ),
    )
    assert rows.set_index("operation")["message_size_bytes"].to_dict() == {
        "ALLGATHER": N_BYTES, "REDUCE_SCATTER": RANKS * N_BYTES,
    }  # fmt: skip


def test_kinds_that_are_numbered_apart_have_groups_of_their_own(tmp_path: Path) -> None:
    kinds = ("AllReduce", "Broadcast")
    rows = of_records(tmp_path, *(line(0, collective(0, 10, 1000, coll=kind)) for kind in kinds))
    assert sorted(group.rpartition(" ")[2] for group in rows["group"]) == list(kinds)
    assert "peers" in rows.attrs["files"][0]["sidecar"]["imported"]["not_told"]  # no root


def test_messages_have_the_other_rank_and_no_number(tmp_path: Path) -> None:
    message = {"p2p": "Send", "p2p_sn": 4, "p2p_peer": 3, "p2p_msg_size_bytes": 64, "p2p_exec_time_us": 20}
    row = of_records(tmp_path, line(0, message)).iloc[0]
    assert (row["operation"], row["peer"], row["message_size_bytes"]) == ("SEND", 3, 64)
    assert pd.isna(row["seq"])


def test_the_rank_is_that_in_the_largest_communicator(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank in range(RANKS):
        pair = line(rank % 2, collective(0, 5, 1000), pid=1000 + rank, id=f"0x{rank // 2}", n_ranks=2)
        pair["metadata"]["hostname"] = f"node{rank // 2}"
        write_records(folder / f"{rank}.jsonl", [pair, line(rank, collective(0, 5, 2000))])
    rows = imported(folder)
    assert rows.groupby("rank").size().to_dict() == dict.fromkeys(range(RANKS), 2)
    assert rows[rows["group_size"] == 2].groupby("group")["rank"].apply(list).tolist() == [[0, 1], [2, 3]]


def test_one_process_may_have_several_ranks(tmp_path: Path) -> None:
    records = [line(rank, collective(0, 5, 2000), pid=9) for rank in range(RANKS)]
    records += [line(0, collective(0, 5, 2000), pid=9, id="0x2", n_ranks=2)]
    made = import_inspector(write_records(tmp_path / "x.log", records), tmp_path / "out")
    assert made.ranks == list(range(RANKS))
    assert made.left_out == {"an operation of one of several ranks of a process": 1}


def test_dumps_of_two_runs_are_refused(tmp_path: Path) -> None:
    records = [line(0, collective(0, 5, 2000), pid=pid) for pid in (1, 2)]
    with pytest.raises(NotImportableError, match="two processes are rank 0"):
        import_inspector(write_records(tmp_path / "x.log", records), tmp_path / "out")


def test_collectives_that_the_inspector_left_out_are_told(tmp_path: Path) -> None:
    records = [record for record in records_of(0, None) if record["coll_perf"]["coll_sn"] % 3]
    [note] = import_inspector(write_records(tmp_path / "x.log", records), tmp_path / "out").notes
    assert note.startswith("By their numbers, 19 parts of collectives are not in the dumps")


def test_compressed_dumps_are_read(tmp_path: Path) -> None:
    plain = write_records(tmp_path / "x.log", records_of(0, None))
    packed = tmp_path / "y.log.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert import_inspector(packed, tmp_path / "out").rows == STEPS


def changed(**perf: Any) -> dict[str, Any]:
    return line(0, {**collective(0, 5, 1000), **perf})


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], "a record of which a field lacks"),
    "another object": ({"a": 1}, "a record of which a field lacks"),
    "neither": ({**line(0, {}), "coll_perf": None}, "a record with neither"),
    "another type": (changed(coll_sn="1"), "a record of which a field lacks"),
    "unknown": (changed(coll="Invalid"), "an operation of an unknown kind"),
    "negative": (changed(coll_exec_time_us=-1), "a record with impossible numbers"),
    "huge": (changed(coll_msg_size_bytes=2**63), "a record with impossible numbers"),
    "too huge": (changed(coll_msg_size_bytes=2**70), "a record with impossible numbers"),
    "a rank too many": (line(RANKS, collective(0, 5)), "a record with impossible numbers"),
    "no ranks": (line(0, collective(0, 5), n_ranks=0), "a record with impossible numbers"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_record_that_cannot_be_used_is_counted(tmp_path: Path, what: str) -> None:
    record, reason = BAD[what]
    path = write_records(tmp_path / "x.log", [*records_of(0, None), record])
    made = import_inspector(path, tmp_path / "out")
    assert made.rows == STEPS
    [(told, n)] = made.left_out.items()
    assert (told[: len(reason)], n) == (reason, 1), made.left_out


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node0.log"
    path.write_text('nccl_bus_bandwidth_gbs{version="v5.1"} 678.263\n')
    with pytest.raises(NotImportableError, match=r"no record of NCCL Inspector .*_PROM_DUMP=0"):
        import_inspector(path, tmp_path / "out")


def test_as_many_records_as_fit_into_memory_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = write_dumps(tmp_path / "dumps", None)
    n_records = import_inspector(dumps, tmp_path / "out").rows
    for most in (n_records, n_records - 1):
        monkeypatch.setattr("timing_logger.importing.inspector.MOST_RECORDS", most)
        if most == n_records:
            assert import_inspector(dumps, tmp_path / "again").rows == n_records
        else:
            with pytest.raises(TooLargeError, match=f"more than {most} records"):
                import_inspector(dumps, tmp_path / "more")


def test_more_records_than_fit_into_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timing_logger.importing.inspector.MOST_RECORDS", 10)
    with pytest.raises(TooLargeError, match="more than 10 records"):
        import_inspector(write_dumps(tmp_path / "dumps", None), tmp_path / "out")
