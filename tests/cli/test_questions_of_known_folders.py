"""What the command prints about known folders stays as it is, until somebody means to change it."""

from __future__ import annotations

import pytest
from printed_answers import FOLDERS, MOST_ASKED, OF_EACH, kept, printed, questions_of

AGAIN = "if it is meant, write it again: python tests/helpers/printed_answers.py"


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_printed_is_what_is_kept(folder: str) -> None:
    questions = questions_of(folder) if folder == MOST_ASKED else OF_EACH
    before = kept(folder)
    assert printed(folder, questions) == {question: before[question] for question in questions}, AGAIN


@pytest.mark.slow("the other questions about the other folders: each question is asked by day of one")
@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != MOST_ASKED])
def test_what_is_printed_for_other_questions_is_what_is_kept(folder: str) -> None:
    assert printed(folder, questions_of(folder)) == kept(folder), AGAIN
