"""The page of a run is made by looks, of which requests get the last, and only while somebody reads it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from simulated_runs import data_parallel, factors
from timing_files import record, write_sidecar, write_table, write_timing_file

from timing_logger.engine.live import Watcher
from timing_logger.monitoring import run_page
from timing_logger.monitoring.run_page import NOW, PAGE, RunPage

ENDLESS_S = 1e9
HOSTILE = "<img src=x onerror=alert(1)>"


class Said(list[str]):
    """What a page said."""


def page_of(folder: Path, every_s: float = 0.01) -> tuple[RunPage, Said]:
    said = Said()
    return RunPage(Watcher(folder, ENDLESS_S), HOSTILE, every_s, said.append), said


def state_of(page: RunPage) -> dict[str, Any]:
    served = page.served(NOW)
    assert served is not None
    state: dict[str, Any] = json.loads(served)
    return state


def write_running(folder: Path, n_rows: int = 40) -> None:
    """Write files of two ranks that go on."""
    for rank in range(2):
        records = [record("FORWARD", 1 + 0.1 * i, 50.0, iteration=i) for i in range(n_rows)]
        path = write_timing_file(folder, rank, records)
        write_sidecar(path, closed=False, end_s=time.time())


def fails(*_: object) -> None:
    raise ValueError(HOSTILE)


def test_before_the_first_file_it_says_so_and_then_it_shows_the_run(tmp_path: Path) -> None:
    page, said = page_of(tmp_path / "later")
    page.look()
    assert "No timing files yet" in state_of(page)["now"]
    write_running(tmp_path / "later")
    page.look()
    assert "2 ranks" in state_of(page)["now"]
    assert b'id="timeline"' in (page.served(PAGE) or b"")
    assert said == []


def test_its_name_is_text_however_it_is_spelt(tmp_path: Path) -> None:
    page, _ = page_of(tmp_path)
    page.look()
    served = (page.served(PAGE) or b"") + (page.served(NOW) or b"")
    assert b"onerror=alert(1)&gt;" in served
    assert HOSTILE.encode() not in served


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunPage, list[dict[str, Any]]]:
    """The page of a run that was looked at three times, and its state after each."""
    folder = tmp_path_factory.mktemp("looked")
    write_running(folder)
    page, _ = page_of(folder)
    states = []
    for _ in range(3):
        page.look()
        states.append(state_of(page))
    return page, states


def test_a_request_makes_nothing(looked: tuple[RunPage, list[dict[str, Any]]]) -> None:
    page, _ = looked
    assert page.served(PAGE) is page.served(PAGE)
    assert page.served(NOW) is page.served(NOW)


def test_each_look_renews_the_head_and_few_the_figures(looked: tuple[RunPage, list[dict[str, Any]]]) -> None:
    _, states = looked
    assert [state["version"] for state in states] == [1, 2, 3]
    assert [state["figures"] for state in states] == [1, 1, 1]


def test_figures_are_made_again_when_they_are_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_page, "FIGURES_EVERY_S", 0.0)
    monkeypatch.setattr(run_page, "LEAST_PAUSE", 0.0)
    write_running(tmp_path)
    page, _ = page_of(tmp_path)
    page.look()
    first = page.served(PAGE)
    page.look()
    assert state_of(page)["figures"] == 2
    assert page.served(PAGE) != first


def test_nothing_is_made_while_nobody_asks_and_who_asks_then_causes_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_running(tmp_path)
    page, _ = page_of(tmp_path, every_s=ENDLESS_S)
    page.look()
    monkeypatch.setattr(run_page, "ASKED_WITHIN_S", -1.0)  # it is always long ago
    page.look()
    assert state_of(page)["version"] == 1
    page.wait()  # not for its whole time
    monkeypatch.undo()
    page.look()
    assert state_of(page)["version"] == 2


def test_a_change_is_told_when_nobody_asked_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor = factors(60, 4)
    factor[:, 1] *= 2
    write_table(tmp_path, data_parallel(factor))
    page, _ = page_of(tmp_path)
    monkeypatch.setattr(run_page, "ASKED_WITHIN_S", -1.0)
    page.look()
    page.look()
    monkeypatch.undo()
    page.look()
    assert state_of(page)["now"].count("rank 1 costs this run") == 1
    assert "Rank 1 costs this run" in state_of(page)["now"]


def test_when_the_run_ends_the_last_figures_are_made_at_once(tmp_path: Path) -> None:
    write_running(tmp_path)
    page, _ = page_of(tmp_path)
    page.look()
    assert state_of(page)["over"] is False
    for path in tmp_path.glob("*.csv"):
        write_sidecar(path, closed=True)
    page.look()
    state = state_of(page)
    assert (state["over"], state["figures"]) == (True, 2)
    page.look()
    assert state_of(page)["figures"] == 2


def test_a_run_that_goes_on_in_the_folder_is_followed_again(tmp_path: Path) -> None:
    write_table(tmp_path, data_parallel(factors(40, 2)))
    page, _ = page_of(tmp_path)
    page.look()
    assert state_of(page)["over"] is True
    write_running(tmp_path, 50)
    page.look()
    assert state_of(page)["over"] is False


def test_what_goes_wrong_is_on_the_page_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_running(tmp_path)
    page, said = page_of(tmp_path)
    monkeypatch.setattr(Watcher, "snapshot", fails)
    for _ in range(3):
        page.look()
    assert "cannot be looked at now" in state_of(page)["now"]
    assert said == [f"ValueError: {HOSTILE}"]
    monkeypatch.undo()
    page.look()
    assert "2 ranks" in state_of(page)["now"]


def test_figures_that_cannot_be_made_leave_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_page, "figures_of", fails)
    write_running(tmp_path)
    page, said = page_of(tmp_path)
    page.look()
    assert "2 ranks" in state_of(page)["now"]
    assert HOSTILE not in state_of(page)["now"]
    assert said == [f"ValueError: {HOSTILE}"]
