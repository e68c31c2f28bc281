"""What is done with the ring of a process that is gone: nothing that others may have put there is trusted."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.process import dead_rings
from timing_logger.process.dead_rings import header_of, mark_killed, opened_ring, ring_of
from timing_logger.process.shared_files import UntrustedFileError, draft_name, locked
from timing_logger.schema.ring_file import NotARing, Ring
from timing_logger.schema.sidecar import GroupProgress

S = 10**9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 8 bytes that nobody but its owner may write to."""
    ring = tmp_path / "ring"
    ring.write_bytes(b"01234567")
    ring.chmod(0o600)
    return ring


# -- which file, and how it is opened ------------------------------------------------------------------------


@pytest.mark.parametrize("named", [None, "", "ring", "../ring", 7, "/tmp/ri\0ng"])
def test_what_is_no_absolute_path_names_no_ring(named: object) -> None:
    assert ring_of({"ring_path": named}) is None


def test_a_ring_is_where_its_sidecar_says() -> None:
    assert ring_of({"ring_path": "/dev/shm/ring"}) == Path("/dev/shm/ring")
    assert ring_of({}) is None


@pytest.mark.parametrize(("most", "is_one"), [(9, True), (8, True), (7, False)])
def test_a_file_that_is_larger_than_any_ring_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch, most: int, is_one: bool
) -> None:
    monkeypatch.setattr(dead_rings, "MOST_BYTES", most)
    before = os.listdir("/proc/self/fd")
    if is_one:
        with opened_ring(path, os.getuid()) as descriptor:
            assert os.pread(descriptor, 9, 0) == b"01234567"
    else:
        with pytest.raises(NotARing, match="larger than any ring"), opened_ring(path, os.getuid()):
            pass
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_ring_that_others_may_write_to_is_not_opened(path: Path) -> None:
    path.chmod(0o620)
    with pytest.raises(UntrustedFileError), opened_ring(path, os.getuid()):
        pass


def test_only_one_at_a_time_has_the_lock(path: Path) -> None:
    with opened_ring(path, os.getuid()) as one, opened_ring(path, os.getuid()) as other:
        assert (locked(one), locked(other)) == (True, False)


def test_the_lock_is_let_go_though_a_child_may_have_the_descriptor(path: Path) -> None:
    with opened_ring(path, os.getuid()) as descriptor:
        assert locked(descriptor)
        of_child = os.dup(descriptor)
    with opened_ring(path, os.getuid()) as again:
        assert locked(again)
    os.close(of_child)


# -- of which run it is --------------------------------------------------------------------------------------


def header_for(
    monkeypatch: pytest.MonkeyPatch, timing_file: str, of: str = "/logs/timing-rank3.csv", **sidecar: int
) -> Any:
    """Return the header of a ring of process 5, begun at 6, for a file and what its sidecar states."""
    header = SimpleNamespace(timing_file=Path(of), pid=5, started_unix_ns=6)
    monkeypatch.setattr(dead_rings, "ring_header", lambda descriptor: header)
    stated = {"pid": 5, "started_unix_ns": 6, **sidecar}
    return header_of(-1, Path("/ring"), Path(timing_file), stated)


@pytest.mark.parametrize(
    "timing_file", ["/logs/timing-rank3.csv", "/copied/timing-rank3.csv", "/logs/timing-rank3.run2.csv"]
)
def test_a_ring_is_of_a_file_of_its_process_and_rank_wherever_that_is_now(
    monkeypatch: pytest.MonkeyPatch, timing_file: str
) -> None:
    assert header_for(monkeypatch, timing_file).pid == 5


@pytest.mark.parametrize(
    ("timing_file", "of", "sidecar"),
    [
        ("/logs/timing-rank3.csv", "/logs/timing-rank3.csv", {"pid": 7}),
        ("/logs/timing-rank3.csv", "/logs/timing-rank3.csv", {"started_unix_ns": 7}),
        ("/logs/timing-rank4.csv", "/logs/timing-rank3.csv", {}),
        ("/logs/other.csv", "/logs/timing-rank3.csv", {}),
        ("/logs/timing-rank3.csv", "/logs/other.csv", {}),
    ],
)
def test_a_ring_of_another_process_or_rank_is_of_another_run(
    monkeypatch: pytest.MonkeyPatch, timing_file: str, of: str, sidecar: dict[str, int]
) -> None:
    with pytest.raises(UntrustedFileError, match="it is of another run"):
        header_for(monkeypatch, timing_file, of, **sidecar)


# -- what the sidecar says afterwards ------------------------------------------------------------------------


Marked = Callable[..., "dict[str, Any]"]


@pytest.fixture
def sidecar(tmp_path: Path) -> Path:
    return tmp_path / "timing-rank0.meta.json"


@pytest.fixture
def marked(sidecar: Path) -> Marked:
    """Marks a sidecar that states ``stated`` by a ring that was looked at so many seconds ago."""

    def mark(looked_s_ago: float | None, stated: object, groups: list[GroupProgress]) -> dict[str, Any]:
        offset_ns = time.time_ns() - 1000 * S
        looked_ns = 0 if looked_s_ago is None else 1000 * S - round(looked_s_ago * S)
        sidecar.write_text(json.dumps({"rank": 4, "updated_unix_ns": stated, "groups": "as stated"}))
        ring = Ring(Path("timing-rank0.csv"), 0, offset_ns, looked_ns, 890, [], [], groups, 0, 0)
        mark_killed(sidecar, ring)
        found: dict[str, Any] = json.loads(sidecar.read_text())
        assert (found.pop("rank"), found.pop("killed")) == (4, True)
        if isinstance(found["updated_unix_ns"], int) and found["updated_unix_ns"] > 100:
            found["updated_unix_ns"] = round((found["updated_unix_ns"] - offset_ns) / S)
        return found

    return mark


@pytest.mark.parametrize("stated", [7, None, "soon"])
def test_a_sidecar_states_the_last_look_of_its_process(marked: Marked, stated: object) -> None:
    groups = [GroupProgress("g", 4, 7, 6)]
    assert marked(100.0, stated, groups) == {
        "updated_unix_ns": 900, "last_progress_counter_ns": 890, "groups": [groups[0]._asdict()],
    }  # fmt: skip


def test_a_sidecar_that_was_written_after_the_last_look_keeps_that_time(marked: Marked) -> None:
    stated_ns = time.time_ns() - 50 * S
    assert marked(100.0, stated_ns, [])["updated_unix_ns"] == 950


def test_groups_of_which_the_ring_tells_nothing_stay_as_stated(marked: Marked) -> None:
    assert marked(100.0, 7, [])["groups"] == "as stated"


@pytest.mark.parametrize("looked_s_ago", [None, -100.0], ids=["never", "after this moment"])
def test_a_process_that_never_looked_or_whose_clock_was_set_back_leaves_what_was_stated(
    marked: Marked, looked_s_ago: float | None
) -> None:
    found = marked(looked_s_ago, 7, [GroupProgress("g", 4, 7, 6)])
    assert found == {"updated_unix_ns": 7, "groups": "as stated"}


@pytest.fixture
def ring() -> Ring:
    return Ring(Path("timing-rank0.csv"), 0, 0, 0, 0, [], [], [], 0, 0)


def test_a_marked_sidecar_may_be_read_by_whom_it_was_and_is_whose_it_was(
    sidecar: Path, ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, uid, gid: owners.append((uid, gid)))
    sidecar.write_text("{}")
    sidecar.chmod(0o640)
    about = sidecar.stat()
    mark_killed(sidecar, ring)
    assert stat.S_IMODE(sidecar.stat().st_mode) == 0o640
    assert owners == [(about.st_uid, about.st_gid)]


def test_a_sidecar_is_marked_though_its_owner_cannot_be_kept(
    sidecar: Path, ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    sidecar.write_text("{}")
    mark_killed(sidecar, ring)
    assert json.loads(sidecar.read_text()) == {"killed": True}


def test_a_link_in_the_place_of_the_draft_is_not_followed(sidecar: Path, ring: Ring, tmp_path: Path) -> None:
    sidecar.write_text("{}")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    draft_name(sidecar).symlink_to(victim)
    mark_killed(sidecar, ring)
    assert victim.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == [sidecar.name, "victim"]


def test_a_sidecar_that_is_no_object_is_not_marked(sidecar: Path, ring: Ring) -> None:
    sidecar.write_text("{")
    with pytest.raises(ValueError, match="Expecting"):
        mark_killed(sidecar, ring)
    assert sidecar.read_text() == "{"
