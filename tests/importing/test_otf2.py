"""Archives of OTF2 become timing files: regions, collectives, messages, and waits for these."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from otf2_archives import RANKS, STEPS, Archive, write_run

from timing_logger import read_timings
from timing_logger.analysis import match_collectives, stragglers
from timing_logger.errors import ConfigurationError, NotImportableError, TooLargeError
from timing_logger.importing import import_otf2
from timing_logger.importing.otf2 import _host_of, _ranks


@pytest.fixture
def otf2() -> Any:
    return pytest.importorskip("otf2", reason="otf2 is not installed (pip install 'timing_logger[otf2]')")


def imported(anchor: Path) -> pd.DataFrame:
    out = anchor.parent.parent / "out"
    import_otf2(anchor, out)
    return read_timings(out)


@contextmanager
def one_of(otf2: Any, folder: Path, ranks: int = 2, per_node: int = 100) -> Iterator[Archive]:
    with otf2.writer.open(str(folder / "archive"), timer_resolution=10**9) as trace:
        yield Archive(otf2, trace, ranks, per_node)


@pytest.mark.slow("what rows say of a slow rank is quick, of traces of torch.profiler among others")
def test_a_rank_that_is_slow_in_a_region_is_named(tmp_path: Path, otf2: Any) -> None:
    verdict = stragglers(imported(write_run(otf2, tmp_path / "archive", 1)))
    assert (verdict.verdict, verdict.ranks, verdict.operation) == ("rank", (1,), "COMPUTE")


@pytest.mark.slow("what rows say of ranks that are alike is quick, of traces of torch.profiler among others")
def test_of_ranks_that_are_alike_none_is_named(tmp_path: Path, otf2: Any) -> None:
    assert stragglers(imported(write_run(otf2, tmp_path / "archive", None))).ranks == ()


def test_collectives_have_their_communicator_and_match(tmp_path: Path, otf2: Any) -> None:
    rows = imported(write_run(otf2, tmp_path / "archive", None))
    states = match_collectives(rows)
    assert len(states) == RANKS * STEPS
    assert set(states["state"]) == {"complete"}
    last = rows[rows["operation"] == "ALLREDUCE"].iloc[-1]
    assert (last["group"], last["group_size"], last["seq"]) == ("MPI_COMM_WORLD", RANKS, STEPS - 1)
    assert last["message_size_bytes"] == 4096


def test_ranks_of_a_node_share_a_clock_and_those_of_others_do_not(tmp_path: Path, otf2: Any) -> None:
    with one_of(otf2, tmp_path, ranks=2, per_node=1) as archive:
        for rank in range(2):
            archive.call(rank, "work", 10, 20)
    made = import_otf2(tmp_path / "archive", tmp_path / "out")
    assert "clocks" in made.not_told
    files = read_timings(tmp_path / "out").attrs["files"]
    assert [file["clock"]["alignment"] for file in files] == ["same host", "unaligned"]


def test_messages_are_numbered_by_their_direction_and_peer(tmp_path: Path, otf2: Any) -> None:
    with one_of(otf2, tmp_path) as archive:
        common = {"communicator": archive.world, "msg_tag": 0, "msg_length": 64}
        for i in range(2):
            archive.call(0, "MPI_Send", 100 * i, 100 * i + 10, ("mpi_send", {"receiver": 1, **common}))
            archive.call(1, "MPI_Recv", 100 * i, 100 * i + 20, ("mpi_recv", {"sender": 0, **common}))
    rows = imported(tmp_path / "archive" / "traces.otf2")
    named = rows[["rank", "operation", "peer", "seq", "message_size_bytes"]].astype(object)
    assert named.values.tolist() == [
        [0, "SEND", 1, 0, 64], [0, "SEND", 1, 1, 64], [1, "RECV", 0, 0, 64], [1, "RECV", 0, 1, 64],
    ]  # fmt: skip


def test_a_message_in_the_background_lasts_until_a_wait_sees_it_complete(tmp_path: Path, otf2: Any) -> None:
    with one_of(otf2, tmp_path) as archive:
        common = {"communicator": archive.world, "msg_tag": 0, "msg_length": 64, "request_id": 7}
        archive.call(0, "MPI_Isend", 0, 10, ("mpi_isend", {"receiver": 1, **common}))
        archive.call(0, "MPI_Wait", 50, 90, ("mpi_isend_complete", {"request_id": 7}))
        archive.call(1, "MPI_Irecv", 0, 10, ("mpi_irecv_request", {"request_id": 7}))
        archive.call(1, "MPI_Waitall", 40, 95, ("mpi_irecv", {"sender": 0, **common}))
    rows = imported(tmp_path / "archive" / "traces.otf2")
    lasts_ns = (rows["elapsed_ms"] * 1e6).round().astype(int)
    assert list(zip(rows["rank"], rows["operation"], lasts_ns, strict=True)) == [
        (0, "ISEND", 90), (0, "WAIT", 40), (1, "IRECV", 95), (1, "WAIT", 55),
    ]  # fmt: skip
    assert rows["peer"].tolist() == [1, 1, 0, 0]


def test_calls_of_mpi_without_communication_are_no_own_work(tmp_path: Path, otf2: Any) -> None:
    with one_of(otf2, tmp_path, ranks=1) as archive:
        for i, name in enumerate(["MPI_Init", "MPI_Comm_rank", "MPI_Comm_split", "MPI_Wait", "MPI_Finalize"]):
            archive.call(0, name, 10 * i, 10 * i + 5)
    assert imported(tmp_path / "archive" / "traces.otf2")["operation"].tolist() == ["MPI_INIT", "COMM_SPLIT"]


def test_the_first_thread_of_a_rank_is_its_main_thread_and_others_have_their_names(
    tmp_path: Path, otf2: Any
) -> None:
    with one_of(otf2, tmp_path) as archive:
        for rank in (0, 1):
            archive.call(rank, "work", 10, 20)
        second = archive.trace.definitions.location("OMP thread 1", group=archive.places[1].group)
        archive.writers[1] = archive.trace.event_writer_from_location(second)
        archive.call(1, "work", 30, 40)
    rows = imported(tmp_path / "archive" / "traces.otf2")
    assert rows[["rank", "thread"]].values.tolist() == [
        [0, "MainThread"], [1, "MainThread"], [1, "OMP thread 1"],
    ]  # fmt: skip


def definitions(*names: str, of_mpi: Sequence[int] = ()) -> SimpleNamespace:
    """The definitions of an archive with processes of these names; ``of_mpi`` are those of MPI's ranks."""
    processes = [SimpleNamespace(name=name, location_group_type="PROCESS") for name in names]
    device = SimpleNamespace(name="CUDA 0 rank 7", location_group_type="ACCELERATOR")
    members = [SimpleNamespace(group=processes[at]) for at in of_mpi]
    of_threads = SimpleNamespace(group_type="COMM_LOCATIONS", paradigm="PTHREAD", members=())
    of_ranks = SimpleNamespace(group_type="COMM_LOCATIONS", paradigm="MPI", members=members)
    groups = [of_threads, *([of_ranks] if members else [])]
    return SimpleNamespace(groups=groups, location_groups=[*processes, device])


@pytest.mark.parametrize(
    ("names", "of_mpi", "ranks"),
    [
        (("a", "b"), (1, 0), [1, 0]),
        (("MPI Rank 1", "MPI Rank 0"), (), [1, 0]),
        (("MPI Rank 4", "MPI Rank 4"), (), [0, 1]),
        (("MPI Rank 1", "other"), (), [0, 1]),
        (("MPI Rank 2147483647", "MPI Rank 7"), (), [0, 1]),
    ],
)
def test_ranks_are_those_of_mpi_or_in_the_names_of_processes_or_their_order(
    names: tuple[str, ...], of_mpi: Sequence[int], ranks: list[int]
) -> None:
    archive = definitions(*names, of_mpi=of_mpi)
    found = _ranks(archive)
    assert [found.get(id(one)) for one in archive.location_groups] == [*ranks, None]


@pytest.mark.parametrize("kind", ["node", "machine node", "host"])
def test_the_host_of_a_process_is_the_node_that_it_is_on(kind: str) -> None:
    outermost = SimpleNamespace(class_name="machine", name="all", parent=None)
    node = SimpleNamespace(class_name=kind, name="node7", parent=outermost)
    socket = SimpleNamespace(class_name="socket", name="0", parent=node)
    assert _host_of(SimpleNamespace(system_tree_parent=socket)) == "node7"
    assert _host_of(SimpleNamespace(system_tree_parent=outermost)) == ""


def test_what_does_not_end_is_counted(tmp_path: Path, otf2: Any) -> None:
    with one_of(otf2, tmp_path, ranks=1) as archive:
        common = {"communicator": archive.world, "msg_tag": 0, "msg_length": 64}
        archive.call(0, "work", 0, 5)
        archive.call(0, "MPI_Isend", 10, 20, ("mpi_isend", {"receiver": 0, "request_id": 1, **common}))
        archive.call(0, "MPI_Wait", 20, 30, ("mpi_isend_complete", {"request_id": 9}))
        archive.call(0, "other", 30, 40, ("mpi_send", {"receiver": 0, **common}))
        archive.writers[0].enter(50, archive.region("main"))
    made = import_otf2(tmp_path / "archive", tmp_path / "out")
    assert made.left_out == {
        "an event of a request that was not seen to begin": 1,
        "an event of MPI outside of a call of MPI": 1,
        "a region that is not left before the archive ends": 1,
        "a message that is not complete before the archive ends": 1,
    }


def test_without_the_package_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces.otf2").write_text("x")
    monkeypatch.setitem(sys.modules, "otf2", None)
    with pytest.raises(ConfigurationError, match=r"needs the package otf2.*\[otf2\]'"):
        import_otf2(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256))])
def test_what_is_no_archive_is_refused(tmp_path: Path, otf2: Any, content: bytes) -> None:
    (tmp_path / "traces.otf2").write_bytes(content)
    with pytest.raises(NotImportableError, match="cannot be read as an archive of OTF2"):
        import_otf2(tmp_path, tmp_path / "out")


def test_an_archive_without_events_is_refused(tmp_path: Path, otf2: Any) -> None:
    with one_of(otf2, tmp_path, ranks=1):
        pass
    with pytest.raises(NotImportableError, match=r"has no region and no communication|cannot be read"):
        import_otf2(tmp_path / "archive", tmp_path / "out")


def test_an_archive_that_does_not_fit_into_memory_is_refused(
    tmp_path: Path, otf2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timing_logger.importing.otf2.MOST_ROWS", 10)
    with pytest.raises(TooLargeError, match="more than 10 regions and messages"):
        import_otf2(write_run(otf2, tmp_path / "archive", None), tmp_path / "out")
