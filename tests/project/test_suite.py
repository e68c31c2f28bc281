"""``make test`` runs every part, whatever fails, and tells what became of all of them in one summary."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from pathlib import Path

import pytest
import suite
from places import ROOT, TESTS

TWO_TESTS = """
import pytest

def test_that_passes(): pass
def test_that_fails(): assert False
@pytest.mark.skip(reason="no such device")
def test_that_is_skipped(): pass
@pytest.mark.skip(reason="no such device")
def test_that_is_skipped_too(): pass
"""


@pytest.fixture
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load them takes longer than all else here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")


def outcome_of(folder: Path, text: str, *options: str) -> suite.Outcome:
    (folder / "test_it.py").write_text(text)
    part = suite.Part("a part", "not slow", [str(folder)], one_by_one=True)
    return suite.run(part, 1, ["-p", "no:cacheprovider", *options])


@pytest.mark.usefixtures("without_plugins")
def test_a_part_is_told_by_what_passed_failed_and_was_skipped_for_which_reason(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, TWO_TESTS)
    assert (outcome.passed, outcome.skipped) == (1, Counter({"no such device": 2}))
    (failed,) = outcome.failed
    assert "test_that_fails" in failed
    assert "a part" in failed


@pytest.mark.parametrize(
    ("status", "failed"),
    [(4, ["a part: pytest ended with 4"]), (5, []), (-9, ["a part: pytest ended with -9"])],
)
def test_how_pytest_itself_ended_counts_unless_no_test_was_chosen(
    status: int, failed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = f"exit {status}" if status > 0 else f"kill {status} $$"
    monkeypatch.setattr(suite, "_command", lambda part, workers: ["sh", "-c", ended])
    assert suite.run(suite.Part("a part", "not slow"), 1, [])[:3] == ("a part", 0, failed)


OF_ALL_STATUSES = pytest.mark.slow(
    "it starts pytest; what its status means is quick, and one part with tests"
)


@OF_ALL_STATUSES
@pytest.mark.usefixtures("without_plugins")
def test_a_part_in_which_no_test_is_chosen_has_not_failed(tmp_path: Path) -> None:
    assert outcome_of(tmp_path, "")[:3] == ("a part", 0, [])


@OF_ALL_STATUSES
@pytest.mark.usefixtures("without_plugins")
def test_a_part_that_could_not_begin_has_failed(tmp_path: Path) -> None:
    assert "ended with 4" in outcome_of(tmp_path, "", "--no-such-option").failed[0]


def test_a_test_is_skipped_once_the_time_is_over(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(TESTS / "conftest.py"))
    monkeypatch.setenv(suite.UNTIL, str(time.time() + 1000))
    conftest.pytest_runtest_setup(request.node)
    monkeypatch.setenv(suite.UNTIL, str(time.time() - 1))
    with pytest.raises(pytest.skip.Exception, match="the time for these tests was over"):
        conftest.pytest_runtest_setup(request.node)


@pytest.mark.slow("it starts pytest; that a test is skipped is tested without")
def test_once_its_time_is_over_no_further_test_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conftest.py").symlink_to(TESTS / "conftest.py")
    monkeypatch.setenv(suite.UNTIL, str(time.time() - 1))
    outcome = outcome_of(
        tmp_path, "def test_it(): pass", "-o", f"pythonpath={shlex.quote(str(TESTS / 'helpers'))}"
    )
    assert outcome.passed == 0
    (reason,) = outcome.skipped
    assert "the time for these tests was over" in reason


def test_the_summary_names_what_failed_in_any_part_and_counts_all_of_them() -> None:
    said = suite.summary(
        [
            suite.Outcome("one", 10, ["a::b (one)"], Counter({"no Chromium": 3}), 5.2),
            suite.Outcome("two", 20, [], Counter({"no Chromium": 1, "no GPU": 2}), 7.0),
        ],
        builds_s=1.4,
    )
    assert said.splitlines() == [
        "skipped, 4: no Chromium",
        "skipped, 2: no GPU",
        "FAILED a::b (one)",
        "== 1 failed, 30 passed, 6 skipped in 14 s: builds 1 s, one 5 s, two 7 s",
    ]


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ("timing_logger/analysis/collectives/waits.py", "tests/analysis/collectives"),
        ("timing_logger/recording/cores/native/core.pyx", "tests/recording/cores"),
        ("timing_logger/schema/record.py", "tests/schema"),
        ("allreduce_instrumentation/torch_distributed/csrc/group.h", "tests/torch_distributed"),
        ("docs/live.md", "tests/project"),
        ("Makefile", "tests/project"),
        ("tests/mpi/test_mpi.py", "tests/mpi/test_mpi.py"),
        ("tests/helpers/places.py", "tests/project"),
    ],
)
def test_what_changed_is_tested_where_tests_mirror_it(changed: str, place: str) -> None:
    assert suite.places_of([changed]) == {place}


def test_every_part_of_the_quick_tests_has_tests_to_run() -> None:
    for part in suite.quick_parts():
        assert all((ROOT / place).exists() for place in part.where if not place.startswith("--"))
