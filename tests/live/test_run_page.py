"""The page of a run is made by looks, of which requests get the last, and only while somebody reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from snapshots import SLOW, snapshot_of
from timing_files import record, write_sidecar, write_timing_file

from timing_logger.live import run_page
from timing_logger.live.run_page import NOW, PAGE, RunPage
from timing_logger.live.watcher import Snapshot, Watcher

ENDLESS_S = 1e9
HOSTILE = "<img src=x onerror=alert(1)>"


class Said(list[str]):
    """What a page said."""


def page_of(folder: Path, every_s: float = 0.01) -> tuple[RunPage, Said]:
    said = Said()
    return RunPage(Watcher(folder, ENDLESS_S), HOSTILE, every_s, said.append), said


class Shown:
    """A watcher that sees what it is given, and fails where that is an error."""

    def __init__(self, *snapshots: Snapshot | Exception) -> None:
        self._left = list(snapshots)

    def snapshot(self) -> Snapshot:
        seen = self._left.pop(0)
        if isinstance(seen, Exception):
            raise seen
        return seen

    def timings(self) -> None:
        """There are none: figures have nothing in them."""


def page_over(
    *snapshots: Snapshot | Exception, every_s: float = 0.01, say: Callable[[str], object] = print
) -> RunPage:
    return RunPage(cast("Watcher", Shown(*snapshots)), HOSTILE, every_s, say)


def state_of(page: RunPage) -> dict[str, Any]:
    served = page.served(NOW)
    assert served is not None
    state: dict[str, Any] = json.loads(served)
    return state


def write_running(folder: Path) -> None:
    """Write files of two ranks that go on."""
    for rank in range(2):
        records = [record("FORWARD", 1 + 0.1 * i, 50.0, iteration=i) for i in range(20)]
        path = write_timing_file(folder, rank, records)
        write_sidecar(path, closed=False, end_s=time.time())


def test_its_name_is_text_however_it_is_spelt(tmp_path: Path) -> None:
    page, _ = page_of(tmp_path)
    page.look()
    served = (page.served(PAGE) or b"") + (page.served(NOW) or b"")
    assert b"onerror=alert(1)&gt;" in served
    assert HOSTILE.encode() not in served


class Looked(NamedTuple):
    """The page of a run that was looked at three times, the first time before it had files.

    Attributes:
        page: the page.
        states: its state after each look.
        whole: the whole page after each look.
        said: what it said.
    """

    page: RunPage
    states: list[dict[str, Any]]
    whole: list[bytes | None]
    said: Said


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Looked:
    folder = tmp_path_factory.mktemp("looked") / "later"
    page, said = page_of(folder)
    states, whole = [], []
    for n_looks in range(3):
        if n_looks == 1:
            write_running(folder)
        page.look()
        states.append(state_of(page))
        whole.append(page.served(PAGE))
    return Looked(page, states, whole, said)


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made when they are due, and there is nothing in them."""
    monkeypatch.setattr(run_page, "figures_of", lambda *_: None)


def test_before_the_first_file_it_says_so_and_then_it_shows_the_run(looked: Looked) -> None:
    assert "No timing files yet" in looked.states[0]["now"]
    assert "2 ranks" in looked.states[1]["now"]
    assert b'id="timeline"' in (looked.page.served(PAGE) or b"")
    assert looked.said == []


def test_it_says_nothing_about_whole_files(looked: Looked) -> None:
    page = looked.page.served(PAGE) or b""
    assert b'id="accounting"' not in page
    assert b'id="unknown"' not in page


def test_a_request_makes_nothing(looked: Looked) -> None:
    page = looked.page
    assert page.served(PAGE) is page.served(PAGE)
    assert page.served(NOW) is page.served(NOW)


def test_each_look_renews_the_head_and_few_the_figures(looked: Looked) -> None:
    assert [state["version"] for state in looked.states] == [1, 2, 3]
    assert [state["figures"] for state in looked.states] == [0, 1, 1]
    assert looked.whole[2] is looked.whole[1]


@pytest.mark.usefixtures("without_figures")
def test_figures_are_made_again_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_page, "FIGURES_EVERY_S", 0.0)
    monkeypatch.setattr(run_page, "LEAST_PAUSE", 0.0)
    page = page_over(snapshot_of(2), snapshot_of(2))
    page.look()
    first = page.served(PAGE)
    page.look()
    assert state_of(page)["figures"] == 2
    assert page.served(PAGE) != first


@pytest.mark.usefixtures("without_figures")
def test_nothing_is_made_while_nobody_asks_and_who_asks_then_causes_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = page_over(*[snapshot_of(2)] * 3, every_s=ENDLESS_S)
    page.look()
    with monkeypatch.context() as patch:
        patch.setattr(run_page, "ASKED_WITHIN_S", -1.0)  # it is always long ago
        page.look()
        assert state_of(page)["version"] == 1
        page.wait()  # not for its whole time
    page.look()
    assert state_of(page)["version"] == 2


def test_who_asks_causes_one_look_and_no_more() -> None:
    page = page_over(every_s=0.0)
    page._asked.set()
    page.wait()
    assert not page._asked.is_set()


@pytest.mark.usefixtures("without_figures")
def test_a_change_is_told_when_nobody_asked_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_over(*[snapshot_of(4, SLOW)] * 3)
    with monkeypatch.context() as patch:
        patch.setattr(run_page, "ASKED_WITHIN_S", -1.0)
        page.look()
        page.look()
    page.look()
    assert state_of(page)["now"].count("rank 3 costs this run") == 1
    assert "Rank 3 costs this run" in state_of(page)["now"]


def ended_run() -> Snapshot:
    return snapshot_of(2, **{f"rank{rank}": {"closed": True} for rank in range(2)})


@pytest.mark.usefixtures("without_figures")
def test_when_the_run_ends_the_last_figures_are_made_at_once() -> None:
    page = page_over(snapshot_of(2), ended_run(), ended_run())
    page.look()
    assert state_of(page)["over"] is False
    page.look()
    state = state_of(page)
    assert (state["over"], state["figures"]) == (True, 2)
    page.look()
    assert state_of(page)["figures"] == 2


@pytest.mark.usefixtures("without_figures")
def test_a_run_that_goes_on_is_followed_again() -> None:
    page = page_over(ended_run(), snapshot_of(2))
    page.look()
    assert state_of(page)["over"] is True
    page.look()
    assert state_of(page)["over"] is False


@pytest.mark.usefixtures("without_figures")
def test_what_goes_wrong_is_on_the_page_and_is_said_once() -> None:
    said = Said()
    page = page_over(*[ValueError(HOSTILE)] * 3, snapshot_of(2), say=said.append)
    for _ in range(3):
        page.look()
    assert "cannot be looked at now" in state_of(page)["now"]
    assert said == [f"ValueError: {HOSTILE}"]
    page.look()
    assert "2 ranks" in state_of(page)["now"]


def test_figures_that_cannot_be_made_leave_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError(HOSTILE)

    monkeypatch.setattr(run_page, "figures_of", fails)
    said = Said()
    page = page_over(snapshot_of(2), say=said.append)
    page.look()
    assert "2 ranks" in state_of(page)["now"]
    assert HOSTILE not in state_of(page)["now"]
    assert said == [f"ValueError: {HOSTILE}"]
