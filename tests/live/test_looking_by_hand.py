"""What a monitor hears, passes on, says and closes, without a run that is judged."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from monitored_runs import Voice, is_of_host, write_run_of_this_host
from sidecars import states
from snapshots import BEGINS, ENDS, SLOW, snapshot_of

from timing_logger.engine.changes import Change
from timing_logger.live import looking
from timing_logger.live.delivery import VerdictsFile
from timing_logger.live.destinations import TensorBoard
from timing_logger.live.digest import Digest
from timing_logger.live.digest_folder import DigestFolder
from timing_logger.live.events import WatchedRun, event_of
from timing_logger.live.looking import Looking, Telling
from timing_logger.live.newest_files import FoundFile
from timing_logger.live.watcher import Snapshot
from timing_logger.process.monitor import MonitorSettings
from timing_logger.process.sidecar_files import read_sidecar


def looking_at(folder: Path, **settings: Any) -> tuple[Looking, Voice]:
    voice = Voice()
    return Looking(MonitorSettings(log_dir=str(folder), **settings), voice.say), voice


def test_of_a_folder_without_files_nothing_is_said(tmp_path: Path) -> None:
    monitor, voice = looking_at(tmp_path)
    monitor.look()
    assert not monitor.stands_still()
    monitor.close()
    assert voice.said == []


def test_of_a_folder_that_is_not_there_yet_nothing_is_said(tmp_path: Path) -> None:
    monitor, voice = looking_at(tmp_path / "later")
    monitor.look()
    assert not monitor.stands_still()
    assert voice.said == []


def test_who_stands_still_is_asked_of_files_that_were_listed_within_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, listed_s = [1000.0], list[float]()
    monkeypatch.setattr(looking, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monitor, _ = looking_at(tmp_path)

    def found() -> list[FoundFile]:
        listed_s.append(now_s[0])
        return []

    monkeypatch.setattr(monitor._files, "found", found)
    for now_s[0] in (1000.0, 1001.0, 1005.0, 1005.5, 1010.0, 1011.0):
        monitor.stands_still()
    assert listed_s == [1000.0, 1005.5, 1011.0]


@pytest.mark.parametrize("is_judged_elsewhere", [True, False])
def test_another_monitor_is_heard_if_that_one_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_judged_elsewhere: bool
) -> None:
    folder = write_run_of_this_host(tmp_path / "run", steps=2)
    other = DigestFolder(folder)
    if is_judged_elsewhere:
        assert other.claim("judge")
    monitor, voice = looking_at(folder)
    monkeypatch.setattr(monitor._watcher, "snapshot", lambda: snapshot_of(4))
    monitor.look()
    VerdictsFile(folder).receive(event_of(BEGINS, WatchedRun()))
    monitor.hear_other()
    assert voice.events == ([("begins", [3])] if is_judged_elsewhere else [])
    said = [one["said"] for one in voice.said if "said" in one]
    assert said == [
        "another monitor of this run is at work on this host; this one passes on what that tells, and judges "
        "when it has ended."
    ] * is_judged_elsewhere  # fmt: skip
    monitor.close()
    other.let_go()


def test_what_the_other_told_last_is_heard_when_this_one_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run_of_this_host(tmp_path / "run", steps=2)
    other = DigestFolder(folder)
    other.claim("judge")
    monitor, voice = looking_at(folder)
    monkeypatch.setattr(monitor._watcher, "snapshot", lambda: snapshot_of(4, SLOW))
    monitor.look()
    VerdictsFile(folder).receive(event_of(BEGINS, WatchedRun()))
    other.let_go()
    for _ in range(3):
        monitor.look()
    assert voice.events == [("begins", [3])]
    monitor.close()


def test_a_monitor_that_is_closed_lets_another_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run_of_this_host(tmp_path / "run", steps=2)
    monitor, _ = looking_at(folder)
    monkeypatch.setattr(monitor._watcher, "snapshot", lambda: snapshot_of(4))
    monitor.look()
    other = DigestFolder(folder)
    assert not other.claim("judge")
    monitor.close()
    assert other.claim("judge")
    other.let_go()


def test_a_digest_has_200_bytes_at_most_for_each_rank_and_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run_of_this_host(tmp_path / "run", steps=2)
    for rank in (0, 1):
        is_of_host(folder / f"timing-rank{rank}.csv", "elsewhere")
    asked: list[int] = []

    def packed(digest: Digest, most_bytes: int) -> bytes:
        asked.append(most_bytes)
        return b""

    monkeypatch.setattr(looking, "packed_within", packed)
    monitor, voice = looking_at(folder, every_s=7.5)
    monitor.look()
    monitor.close()
    assert (asked, voice.said) == ([2 * 1500], [])


@pytest.mark.parametrize(
    ("error", "said"),
    [(ValueError("first\nsecond"), "ValueError: first"), (KeyError(), "KeyError: ")],
)
def test_what_goes_wrong_is_said_in_a_line_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    monitor, voice = looking_at(write_run_of_this_host(tmp_path / "run", steps=2))

    def fails() -> Snapshot:
        raise error

    monkeypatch.setattr(monitor._watcher, "snapshot", fails)
    for _ in range(2):
        monitor.look()
    monitor.close()
    assert voice.said == [{"said": f"the run cannot be judged now: {said}"}]


class Shown(NamedTuple):
    """An exporter that keeps what it is shown, and whether it was closed."""

    changes: list[str | None]
    closed: list[bool]

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        self.changes.append(change and change.kind)

    def close(self) -> None:
        self.closed.append(True)


def test_exporters_are_shown_each_look_with_what_it_changes_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = Shown([], [])
    monkeypatch.setattr(looking, "started", lambda destination, say: exporter)
    settings = MonitorSettings(log_dir=str(tmp_path), show_in=cast("Any", (TensorBoard("runs").to_json(),)))
    telling = Telling(settings, Voice().say)
    for _ in range(3):
        telling.tell(snapshot_of(4, SLOW))
    assert (exporter.changes, len(exporter.closed)) == ([None, "begins", None], 0)
    telling.close()
    assert exporter.closed == [True]


def test_what_another_told_that_is_over_stands_no_longer(tmp_path: Path) -> None:
    voice = Voice()
    telling = Telling(MonitorSettings(log_dir=str(tmp_path)), voice.say)
    for change in (BEGINS, ENDS):
        telling.hear(event_of(change, WatchedRun()))
    for _ in range(3):
        telling.tell(snapshot_of(4))
    telling.close()
    assert [kind for kind, _ in voice.events] == ["begins", "ends"]
    assert not (tmp_path / "verdicts.jsonl").exists()


def test_a_process_that_began_at_the_very_instant_is_of_the_run_and_one_before_is_not(tmp_path: Path) -> None:
    monitor, _ = looking_at(tmp_path, since_unix_s=2.0)
    began_ns = (None, 1_999_999_999, 2_000_000_000)
    assert [monitor._is_of_run({"started_unix_ns": at}) for at in began_ns] == [False, False, True]


def test_a_look_notes_the_run_of_rank_0_and_a_process_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run_of_this_host(tmp_path / "run", steps=2)
    for rank in range(4):
        file = folder / f"timing-rank{rank}.csv"
        states(file, **{**(read_sidecar(file) or {}), "run_id": "job 7", "pid": 40 + rank})
    monitor, _ = looking_at(folder)
    monkeypatch.setattr(monitor._watcher, "snapshot", lambda: snapshot_of(4))
    monitor.look()
    assert (monitor._run_id, monitor._elsewhere.pid) == ("job 7", 40)
    monitor.close()


def test_an_event_goes_to_the_file_and_to_webhooks_and_the_end_waits_for_both(tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []

    def noting(name: str) -> Any:
        return SimpleNamespace(
            deliver=lambda event: calls.append((name, event["change"])),
            close=lambda *within_s: calls.append((name, *within_s)),
        )

    telling = Telling(MonitorSettings(log_dir=str(tmp_path)), Voice().say)
    telling.close()
    telling._file, telling._webhooks = noting("file"), noting("webhooks")
    for _ in range(2):
        telling.tell(snapshot_of(4, SLOW))
    telling.close()
    assert calls == [("file", "begins"), ("webhooks", "begins"), ("file", 3.0), ("webhooks",)]
