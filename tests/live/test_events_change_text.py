"""What is found of a run in progress: the verdict, or the hang that came after it."""

from __future__ import annotations

import pytest

from timing_logger.analysis import RunEnd, Verdict
from timing_logger.live.events import what_is_found

SENTENCES = ("It hangs.", "Rank 2 is missing.", "Look there.")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (RunEnd(state="hang", sentences=SENTENCES), "It hangs. Rank 2 is missing."),
        (RunEnd(state="ended", sentences=SENTENCES), "no rank is slow."),
    ],
)
def test_of_a_hang_the_first_two_sentences_are_said_and_else_the_verdict(end: RunEnd, said: str) -> None:
    assert what_is_found(Verdict(verdict="healthy", end=end)) == said
