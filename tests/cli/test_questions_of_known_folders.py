"""What the command prints about known folders stays as it is, until somebody means to change it."""

from __future__ import annotations

import pytest
from printed_answers import FOLDERS, MOST_ASKED, OF_EACH, kept, printed, questions_of

AGAIN = "if it is meant, write it again: python tests/helpers/printed_answers.py"
ONLY_HERE = ("summary --by operation,phase", "overlap", "compression")
AS_JSON = ("hang --json", "bandwidth --json", "overlap --json")
BY_DAY = {MOST_ASKED: (*OF_EACH, *ONLY_HERE, *AS_JSON), "hung": ("stragglers", "hang", "waits")}


@pytest.mark.parametrize("folder", BY_DAY)
def test_what_is_printed_is_what_is_kept(folder: str) -> None:
    before = kept(folder)
    assert printed(folder, BY_DAY[folder]) == {question: before[question] for question in BY_DAY[folder]}, (
        AGAIN
    )


@pytest.mark.slow("by day a run and a hang are asked all that is printed as text, and some of the JSON")
@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_printed_for_all_questions_is_what_is_kept(folder: str) -> None:
    assert printed(folder, questions_of(folder)) == kept(folder), AGAIN
