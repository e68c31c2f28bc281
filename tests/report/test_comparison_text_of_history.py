"""What became of a history, as text or JSON."""

from __future__ import annotations

import json

from timing_logger.report.comparison import history_begun_text, history_text


def test_a_history_that_is_empty_is_told_as_text_or_as_one_object() -> None:
    text = "kept keeps no runs yet: nothing is compared. 3 runs added."
    assert history_begun_text("kept", 3, as_json=False, adds=True) == f"{text}\n"
    told = history_begun_text("kept", 3, as_json=True, adds=True)
    assert told.endswith("}\n")
    assert json.loads(told) == {"verdict": None, "text": [text]}
    assert history_begun_text("kept", 3, as_json=False, adds=False).endswith(
        "Nothing was added (--no-add).\n"
    )


def test_runs_are_added_unless_they_are_slower_or_shall_not_be() -> None:
    assert history_text("kept", 1, 1200, adds=True, is_slower=True) == (
        "\n1 run added to kept, which keeps 1,200 now.\n"
    )
    assert "--accept begins the history anew" in history_text("kept", 1, 9, adds=False, is_slower=True)
    assert "(--no-add), which keeps 9." in history_text("kept", 1, 9, adds=False, is_slower=False)
