"""What is said of timing files whose processes did not close them, by what their sidecars and rings tell."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sidecars import states

from timing_logger.process import this_process
from timing_logger.process.sidecar_files import parts_of, read_sidecar
from timing_logger.reading import recovery
from timing_logger.reading.recovery import Recovery, look_into, recover, recovered, timing_files_at
from timing_logger.schema.record import HEADER
from timing_logger.schema.ring_file import Ring
from timing_logger.schema.timing_files import sidecar_path

NOBODY = 2**30  # beyond the largest number that a process can have
RUNNING: dict[str, Any] = {
    "closed": False,
    "updated_unix_ns": 0,
    "pid_namespace": this_process.pid_namespace(),
}
HERE = {**RUNNING, "host": this_process.host_name(), "boot_id": this_process.boot_id(), "pid": os.getpid()}
GONE = {**HERE, "pid": NOBODY}
ELSEWHERE = {**RUNNING, "host": "node7", "boot_id": "another", "pid": 5}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "timing-rank0.csv"
    path.write_text(HEADER)
    return path


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """A file where a ring is expected, which is none."""
    path = tmp_path / "ring"
    path.write_bytes(b"no ring")
    path.chmod(0o600)
    return path


def of_file(file: Path, **sidecar: Any) -> Recovery:
    """Return what becomes of a timing file with this sidecar."""
    states(file, **sidecar)
    (found,) = recovered([file])
    assert found.file == file
    return found


# -- files that need nothing ------------------------------------------------------------------------------


def test_of_a_file_without_a_sidecar_nothing_is_known(file: Path) -> None:
    assert recovered([file]) == [Recovery(file, ended=None)]


@pytest.mark.parametrize("counters", [{}, {"dropped": 0, "pending": 0}])
def test_a_file_whose_logger_was_closed_with_all_written_is_final(
    file: Path, counters: dict[str, int]
) -> None:
    found = of_file(file, closed=True, counters=counters)
    assert (str(found), found.ended) == ("", True)
    assert found.sidecar is not None
    assert found.sidecar["closed"] is True


def test_where_the_sidecar_does_not_tell_whether_it_was_closed_it_is_not_final(file: Path) -> None:
    assert of_file(file, rank=0) == Recovery(file)


@pytest.mark.parametrize("lacking", ["dropped", "pending"])
def test_a_closed_file_that_lacks_rows_may_be_completed_and_is_not_final(file: Path, lacking: str) -> None:
    assert of_file(file, closed=True, counters={lacking: 1}).sidecar is None


# -- files without a ring ----------------------------------------------------------------------------------


def test_of_a_process_that_runs_nothing_is_said(file: Path) -> None:
    assert of_file(file, **HERE) == Recovery(file, ended=False)


def test_of_a_process_elsewhere_that_gave_a_sign_lately_nothing_is_said(file: Path) -> None:
    found = of_file(file, **{**ELSEWHERE, "updated_unix_ns": time.time_ns()})
    assert found == Recovery(file, ended=False)


def test_of_a_process_that_is_gone_a_sign_lately_tells_nothing(file: Path) -> None:
    found = of_file(file, **{**GONE, "updated_unix_ns": time.time_ns()})
    assert found.ended is None


@pytest.mark.parametrize(
    ("sidecar", "said"),
    [
        (GONE, "its process ended without closing it: "), (ELSEWHERE, "not closed: "),
    ],
)  # fmt: skip
def test_of_a_file_that_was_not_closed_nobody_knows_whether_rows_are_missing(
    file: Path, sidecar: dict[str, Any], said: str
) -> None:
    whether = "whether rows of its last seconds are missing cannot be known"
    assert of_file(file, **sidecar) == Recovery(file, 0, f"{said}{whether} (no crash protection)", None)
    why = {"crash_protection": {"active": False, "reason": "no memory"}}
    assert str(of_file(file, **sidecar, **why)) == f"{said}{whether} (no memory)"


def test_what_was_said_of_a_killed_process_before_is_not_said_again(file: Path) -> None:
    assert of_file(file, **GONE, killed=True) == Recovery(file)


# -- files with a ring that is not used ----------------------------------------------------------------


def test_a_ring_that_is_none_is_said_to_be_unreadable(file: Path, ring: Path) -> None:
    found = of_file(file, **GONE, ring_path=str(ring))
    assert (found.rows, found.ended) == (0, None)
    assert str(found).startswith(f"what a killed process left in {str(ring)!r} cannot be read: ")


def test_a_ring_that_others_may_write_to_is_not_used(file: Path, ring: Path) -> None:
    ring.chmod(0o622)
    found = of_file(file, **GONE, ring_path=str(ring))
    why = "other users may write to it"
    assert found == Recovery(file, 0, f"not closed, and its ring {str(ring)!r} is not used: {why}", None)
    assert of_file(file, closed=True, counters={"dropped": 1}, ring_path=str(ring)) == Recovery(file)


def test_a_timing_file_that_is_a_link_gets_no_rows(file: Path, ring: Path, tmp_path: Path) -> None:
    file.rename(tmp_path / "kept")
    file.symlink_to(tmp_path / "kept")
    found = of_file(file, **GONE, ring_path=str(ring))
    where = f"{str(file)!r}: it is no regular file"
    assert found == Recovery(
        file, 0, f"not closed: rows in {str(ring)!r} cannot be added here: {where}", None
    )


def test_a_ring_that_is_gone_from_here_held_rows_that_nobody_knows_of(file: Path, tmp_path: Path) -> None:
    ring = tmp_path / "gone"
    found = of_file(file, **GONE, ring_path=str(ring))
    assert str(found).endswith(f"cannot be known ({str(ring)!r}, which held them, is gone)")
    assert of_file(file, **HERE, ring_path=str(ring)) == Recovery(file, ended=False)


@pytest.mark.parametrize(("host", "named"), [("node7", "node7"), ("", "another machine")])
def test_a_ring_on_another_machine_is_to_be_recovered_there(
    file: Path, tmp_path: Path, host: str, named: str
) -> None:
    found = of_file(file, **{**ELSEWHERE, "host": host}, ring_path=str(tmp_path / "not here"))
    where = f"on {named}: run timing-logger recover there"
    said = f"not closed: rows that its process had not yet written may be {where}"
    assert found == Recovery(file, 0, said, None)


@pytest.mark.parametrize("other", [{"closed": True, "counters": {"dropped": 1}}, {"killed": True}])
def test_nothing_is_said_of_a_ring_on_another_machine_once_the_sidecar_says_how_it_ended(
    file: Path, tmp_path: Path, other: dict[str, Any]
) -> None:
    assert of_file(file, **{**ELSEWHERE, **other}, ring_path=str(tmp_path / "not here")) == Recovery(file)


def test_a_ring_that_only_its_user_may_read_is_to_be_recovered_by_that(file: Path, tmp_path: Path) -> None:
    ring, error = tmp_path / "ring", PermissionError(13, "Permission denied", str(tmp_path / "ring"))
    found = recovery._out_of_reach(file, GONE, ring, error)
    where = f"in {str(ring)!r}, which only its user may read: have that user run timing-logger recover"
    said = f"not closed: rows that its process had not yet written may be {where}"
    assert found == Recovery(file, 0, said, None)
    assert recovery._out_of_reach(file, HERE, ring, error) == Recovery(file, ended=False)


# -- rings that can be read --------------------------------------------------------------------------------


class Held:
    """A ring that stands in a file: whoever opens it reads this one."""

    def __init__(self, path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.ring = Ring(file, 5, 10**18, 0, 0, [], [], [], 0, 0)
        self._record: tuple[Any, ...] = (
            0, 0, "", "BARRIER", "", None, 10, 20, "host", "g", 4, 1, None, "MainThread", "ok",
        )  # fmt: skip

        class Header:
            head, released = 9, 8

        monkeypatch.setattr(recovery, "header_of", lambda *given: Header)
        monkeypatch.setattr(recovery, "read_ring", lambda descriptor: self.ring)

    def hold(self, n_records: int, **fields: Any) -> None:
        """Have it hold so many records, each of a collective of its own."""
        records = [(*self._record[:11], seq, *self._record[12:]) for seq in range(n_records)]
        self.ring = self.ring._replace(records=records, **fields)


@pytest.fixture
def held(ring: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(ring, file, monkeypatch)


def test_rows_of_a_process_that_is_gone_are_added_and_its_ring_is_removed(file: Path, held: Held) -> None:
    held.hold(2)
    found = of_file(file, **GONE, ring_path=str(held.path))
    assert found == Recovery(file, 2, "", True)
    assert str(found) == "2 rows added that its process had not written"
    assert file.read_text().count("BARRIER") == 2
    assert not held.path.exists()
    sidecar = read_sidecar(file)
    assert sidecar is not None
    assert sidecar["killed"] is True


def test_one_row_and_one_record_are_told_as_one(file: Path, held: Held) -> None:
    held.hold(1, elsewhere=1)
    said = "1 row added that its process had not written; 1 record lost that only the process held"
    assert str(of_file(file, **GONE, ring_path=str(held.path))) == said
    held.path.write_bytes(b"again")
    held.path.chmod(0o600)
    held.hold(0, elsewhere=2, damaged=3)
    assert str(of_file(file, **GONE, ring_path=str(held.path))) == "5 records lost that only the process held"


def test_the_ring_stays_where_the_file_is_a_copy_of_that_which_the_process_wrote(
    file: Path, held: Held, tmp_path: Path
) -> None:
    original = tmp_path / "run" / file.name
    original.parent.mkdir()
    original.write_text(HEADER)
    held.hold(1, timing_file=original)
    for started_unix_ns, stays in ((5, True), (6, False)):
        states(original, started_unix_ns=started_unix_ns)
        assert of_file(file, **GONE, ring_path=str(held.path)).ended is True
        assert held.path.exists() is stays
    held.path.write_bytes(b"again")
    held.path.chmod(0o600)
    original.unlink()
    of_file(file, **GONE, ring_path=str(held.path))
    assert not held.path.exists()


def test_where_all_parts_were_removed_rows_go_to_a_new_one_with_the_permissions_of_the_sidecar(
    file: Path, held: Held
) -> None:
    held.hold(1)
    states(file, **GONE, ring_path=str(held.path), parts=[{"file": file.name, "rows": 5, "bytes": 9}] * 2)
    sidecar_path(file).chmod(0o640)
    file.unlink()
    assert [found.rows for found in look_into(file.parent)] == [1]
    (part,) = parts_of(file)
    assert part.name == "timing-rank0.part2.csv"
    assert part.read_text().startswith(HEADER)
    assert stat.S_IMODE(part.stat().st_mode) == 0o640


def test_where_all_parts_were_removed_a_call_that_was_open_goes_to_a_new_one(file: Path, held: Held) -> None:
    held.hold(1)
    held.ring = held.ring._replace(records=[], open_calls=held.ring.records)
    states(file, **GONE, ring_path=str(held.path))
    file.unlink()
    assert recovered([file])[0].rows == 1
    assert [part.name for part in parts_of(file)] == ["timing-rank0.part2.csv"]


def test_a_new_part_that_another_user_makes_is_the_owners(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, uid, gid: owners.append((uid, gid)))
    states(file)
    for owner, part in ((os.geteuid(), 2), (os.geteuid() + 1, 3)):
        made = recovery._next_part(file, {"parts": [{"file": f"timing-rank0.part{part - 1}.csv"}]}, owner)
        assert made.name == f"timing-rank0.part{part}.csv"
    assert owners == [(os.geteuid() + 1, -1)]


def test_where_all_parts_were_removed_and_the_ring_is_empty_none_is_made(file: Path, held: Held) -> None:
    states(file, **GONE, ring_path=str(held.path))
    file.unlink()
    assert recovered([file]) == [Recovery(file)]
    assert not held.path.exists()
    assert not list(file.parent.glob("*.csv"))


def test_a_new_part_comes_after_those_that_the_sidecar_names(file: Path, held: Held) -> None:
    held.hold(1)
    named = [{"file": f"timing-rank0{part}.csv", "rows": 5, "bytes": 9} for part in (".part4", "", ".part3")]
    states(file, **GONE, ring_path=str(held.path), parts=named)
    file.unlink()
    recovered([file])
    assert [part.name for part in parts_of(file)] == ["timing-rank0.part5.csv"]


# -- rings that others hold ----------------------------------------------------------------------------


@pytest.fixture
def locked(ring: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The ring is locked by another, and nobody waits for that."""
    monkeypatch.setattr(recovery, "_PATIENCE_S", 0.0)
    with ring.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("locked")
def test_a_ring_that_its_process_holds_is_left_alone(file: Path, held: Held) -> None:
    held.hold(1)
    assert of_file(file, **HERE, ring_path=str(held.path)) == Recovery(file, ended=False)
    assert file.read_text() == HEADER


@pytest.mark.parametrize("sidecar", [HERE, ELSEWHERE])
def test_only_for_a_ring_whose_process_is_gone_others_are_waited_for(
    ring: Path, monkeypatch: pytest.MonkeyPatch, sidecar: dict[str, Any]
) -> None:
    tried: list[int] = []
    monkeypatch.setattr(recovery, "locked", lambda descriptor: len(tried) == 3)
    monkeypatch.setattr(time, "sleep", lambda length_s: tried.append(length_s))
    with ring.open("rb") as opened:
        until_s = time.monotonic() + 3600
        assert recovery._waited_for(opened.fileno(), ring, sidecar, until_s) is False
        assert tried == []
        assert recovery._waited_for(opened.fileno(), ring, GONE, until_s) is True
    assert len(tried) == 3


@pytest.mark.usefixtures("locked")
def test_of_a_ring_that_somebody_holds_it_is_said_how_many_rows_wait_in_it(file: Path, held: Held) -> None:
    said = f"not closed: 1 row in {str(held.path)!r}, which its process or another one holds"
    assert of_file(file, **ELSEWHERE, ring_path=str(held.path)) == Recovery(file, 0, said, None)
    found = of_file(file, **GONE, ring_path=str(held.path))
    assert found.ended is None
    assert str(found) == (
        "its process is gone, and 1 row of it could not be added: another process, such as a child of it or "
        f"one that adds them, holds {str(held.path)!r}"
    )


def test_a_ring_that_another_has_removed_meanwhile_is_recovered_already(
    file: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.hold(1)

    def removed_then_locked(descriptor: int) -> bool:
        held.path.unlink()
        return True

    monkeypatch.setattr(recovery, "locked", removed_then_locked)
    assert of_file(file, **GONE, ring_path=str(held.path)) == Recovery(file)
    assert file.read_text() == HEADER


def test_rows_that_cannot_be_added_stay_in_the_ring(
    file: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recovery, "write_missing", full)
    found = of_file(file, **GONE, ring_path=str(held.path))
    assert (found.rows, found.ended) == (0, True)
    assert str(found) == (
        f"rows that its process had not written stay in {str(held.path)!r}, if any, as they cannot be added "
        "here: No space left on device"
    )
    assert held.path.exists()


# -- which files ---------------------------------------------------------------------------------------


def test_each_timing_file_in_a_folder_is_named_once_by_its_first_part(tmp_path: Path) -> None:
    for name in ("timing-rank1.part2.csv", "timing-rank1.part3.csv", "timing-rank0.csv", "timing-rankx.csv"):
        (tmp_path / name).write_text(HEADER)
    firsts = [tmp_path / "timing-rank0.csv", tmp_path / "timing-rank1.csv"]
    assert timing_files_at(tmp_path) == firsts
    assert timing_files_at(tmp_path / "timing-rank1.part3.csv") == firsts[1:]
    assert timing_files_at(tmp_path / "timing-rankx.csv") == []
    assert timing_files_at(tmp_path / "timing-rank7.csv") == []


def test_a_file_that_was_removed_counts_as_long_as_its_sidecar_is_there(tmp_path: Path) -> None:
    kept, removed = tmp_path / "timing-rank1.csv", tmp_path / "timing-rank0.csv"
    kept.write_text(HEADER)
    states(kept, closed=True)
    states(removed, closed=True)
    (tmp_path / "timing-rankx.meta.json").write_text("{}")
    assert [found.file for found in look_into(tmp_path)] == [kept, removed]
    assert recover(tmp_path) == []


def test_only_files_of_which_there_is_something_to_say_are_returned(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "timing-rank1.csv"
    other.write_text(HEADER)
    states(file, **GONE)
    states(other, closed=True)
    assert [found.file for found in recover(tmp_path)] == [file]
