"""What sources do not tell that an answer needs."""

from __future__ import annotations

from timing_logger.cli.questions import QUESTIONS
from timing_logger.schema.sidecar import NOT_TOLD
from timing_logger.words.not_told import NEEDED_BY, not_told_sentences, not_told_text, not_told_values

OTHER_ANSWERS = {"summary --by", "report", "trace", "compare", "watch"}


def test_of_each_answer_it_is_stated_what_it_needs() -> None:
    answers = {question.name for question in QUESTIONS} | OTHER_ANSWERS
    assert {*NEEDED_BY} ^ answers == set(), "NEEDED_BY in words/not_told.py has a row for each answer"


def test_each_thing_that_may_not_be_told_is_needed_by_some_answer() -> None:
    needed = {name for names in NEEDED_BY.values() for name in names}
    assert {*NOT_TOLD} ^ needed == set(), (
        "rows of NEEDED_BY in words/not_told.py name all of sidecar.NOT_TOLD"
    )


def test_each_kind_of_import_is_told_with_what_it_lacks() -> None:
    lacks = {"steps": ["communication"]}
    assert "communication" in NEEDED_BY["stragglers"]
    (said,) = not_told_sentences("stragglers", lacks)
    assert said == f"Imported (steps), from what does not tell {NOT_TOLD['communication']}."
    assert not_told_text("stragglers", lacks, 500).strip() == said
    assert not_told_values("stragglers", lacks) == [
        {"kind": "steps", "name": "communication", "text": NOT_TOLD["communication"]}
    ]


def test_where_communication_has_no_instants_it_is_told_what_follows() -> None:
    (said,) = not_told_sentences("stragglers", {"x": ["instants"]})
    assert NOT_TOLD["instants"] in said
    assert said.endswith("nor what share of the time anything took.")
    without_any = " ".join(not_told_sentences("stragglers", {"x": ["instants", "communication"]}))
    assert NOT_TOLD["instants"] not in without_any


def test_what_is_told_in_full_needs_no_word() -> None:
    assert not_told_text("stragglers", {}, 100) == ""
