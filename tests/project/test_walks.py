"""The walks that docs/architecture.md shows lead through the rooms that it says, in that order."""

from __future__ import annotations

from pathlib import Path

import walks


def test_each_walk_leads_through_the_rooms_that_the_page_shows(tmp_path: Path) -> None:
    walked, shown = walks.walks(tmp_path), walks.on_the_page()
    of_one_thread = [name for name in walked if not name.endswith("CSV")]
    assert {name: walked[name] for name in of_one_thread} == {name: shown[name] for name in of_one_thread}
    assert {name: set(rooms.split()) for name, rooms in walked.items()} == {
        name: set(rooms.split()) for name, rooms in shown.items()
    }
