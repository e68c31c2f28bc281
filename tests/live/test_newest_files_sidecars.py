"""A sidecar is parsed again only where it changed, and that of another host is not even looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sidecars import states

from timing_logger.live import newest_files as module
from timing_logger.live.newest_files import LASTING, Sidecars
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.schema.timing_files import sidecar_path


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The timing files whose sidecars were parsed."""
    paths: list[Path] = []

    def noted(path: Path) -> dict[str, Any] | None:
        paths.append(path)
        return read_sidecar(path)

    monkeypatch.setattr(module, "read_sidecar", noted)
    return paths


def say(timing_file: Path, **content: Any) -> Path:
    return states(timing_file, **{"host": "node0", "started_unix_ns": 1, **content})


def test_what_did_not_change_is_parsed_once(tmp_path: Path, parsed: list[Path]) -> None:
    path, known = say(tmp_path / "timing-rank0.csv"), Sidecars()
    assert known.now(path) == known.now(path) == {"host": "node0", "started_unix_ns": 1}
    assert parsed == [path]


def test_what_was_replaced_is_known_at_once(tmp_path: Path) -> None:
    path, known = say(tmp_path / "timing-rank0.csv", closed=False), Sidecars("node0")
    assert known.lasting(path, 7)["closed"] is False
    say(path, closed=True)
    assert known.lasting(path, 7)["closed"] is True
    sidecar_path(path).unlink()
    assert known.lasting(path, 7) == {}


def test_a_process_that_says_nothing_yet_is_heard_at_once(tmp_path: Path) -> None:
    path, known = tmp_path / "timing-rank0.csv", Sidecars("node0")
    assert known.lasting(path, 7) == {}
    assert known.lasting(say(path, host="node1"), 7)["host"] == "node1"


def test_of_another_host_it_is_looked_at_once_and_only_what_lasts_is_kept(
    tmp_path: Path, parsed: list[Path]
) -> None:
    path, known = say(tmp_path / "timing-rank0.csv", host="node1", rank=0), Sidecars("node0")
    found = known.lasting(path, 7)
    assert set(found) == {"host", "started_unix_ns"} < set(LASTING)
    say(path, host="node1", rank=0, closed=True)
    assert known.lasting(path, 7) is found
    assert parsed == [path]


@pytest.mark.parametrize("how", ["another file", "look again", "much later"])
def test_of_another_host_it_is_looked_at_again_where_it_may_be_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path, known = say(tmp_path / "timing-rank0.csv", host="node1"), Sidecars("node0")
    known.lasting(path, 7)
    say(path, host="node1", started_unix_ns=2)
    if how == "look again":
        known.look_again()
    if how == "much later":
        monkeypatch.setattr(module.time, "monotonic", lambda: float("inf"))
    assert known.lasting(path, 8 if how == "another file" else 7)["started_unix_ns"] == 2


def test_a_process_of_another_host_that_is_followed_is_heard_at_once(tmp_path: Path) -> None:
    path, known = say(tmp_path / "timing-rank0.csv", host="node1"), Sidecars("node0")
    known.lasting(path, 7)
    say(path, host="node1", closed=True)
    assert known.now(path)["closed"] is True
