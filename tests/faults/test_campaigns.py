"""``make faults``: its short form, and that it hides nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaign import __main__ as command
from campaign import page
from campaign.runner import Settings, run_all
from campaign.table import CAMPAIGNS
from campaign.trial import Campaign, Result, Trial, Tried, Untried, tried
from limits import scaled
from places import HELPERS, ROOT, TESTS

PAGE = ROOT / "docs" / "reliability.md"
PATHS = os.pathsep.join(
    map(str, [ROOT, HELPERS, TESTS / "faults", *filter(None, [os.environ.get("PYTHONPATH")])])
)


@pytest.mark.slow("all campaigns, for minutes; each promise has a test of its own")
@pytest.mark.serial
def test_every_promise_holds_in_the_short_form_of_make_faults(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "campaign", "--short"], cwd=tmp_path, capture_output=True, text=True,
        timeout=scaled(900), env={**os.environ, "PYTHONPATH": PATHS}, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def breaks(trial: Trial) -> str:
    for number in range(3):
        with trial.one(f"try {number}"):
            assert number != 1, "it hung"
    return "a note"


def cannot(trial: Trial) -> str:
    raise Untried("no GPU here")


def of(run: object) -> Campaign:
    return Campaign("name", "P0: it holds", "as is", run)  # type: ignore[arg-type]


def result_of(campaign: Campaign, folder: Path) -> Result:
    return tried(campaign, Trial(campaign.name, folder))


def test_a_broken_promise_stands_in_the_table_with_its_numbers(tmp_path: Path) -> None:
    result = result_of(of(breaks), tmp_path)
    assert (result.tried, result.held) == (3, 2)
    assert result.failures[0].startswith("try 1: AssertionError: it hung")
    (line,) = page.lines_of([Tried(of(breaks), "python", result)], [of(breaks)], short=False)
    assert (line.outcome, line.held, line.tried, line.note) == ("broken", 2, 3, "a note")
    table = [*page.table([line])]
    assert "| P0 | - | **2 of 3** | - | - |" in table
    assert table[-1] == "- **broken: 2 of 3. P0: it holds. as is (python): a note**"


def test_what_could_not_be_tried_says_why(tmp_path: Path) -> None:
    reads = of(cannot)._replace(records=False)
    result = result_of(reads, tmp_path)
    assert not result.is_broken
    (line,) = page.lines_of([Tried(reads, "", result)], [reads], short=False)
    assert (line.writer, line.outcome, line.day) == ("readers", "not tried", "")
    table = [*page.table([line])]
    assert table[2] == "| P0 | - | - | - | - |"
    assert table[-1] == "- not tried: P0: it holds: no GPU here"


def test_each_writer_has_a_column_and_says_why_it_did_not_try() -> None:
    campaign = of(breaks)._replace(native_mpi="it has no iterations")
    both = [Tried(campaign, writer, Result(3, held)) for writer, held in (("native", 3), ("python", 2))]
    lines = page.lines_of(both, [campaign], short=False)
    assert [line.outcome for line in lines] == ["held", "broken", "not tried"]
    assert lines[-1].note == "it has no iterations"
    assert "| P0 | 3 | **2 of 3** | - | - |" in page.table(lines)


def test_a_promise_counts_the_faults_of_all_its_campaigns() -> None:
    first, second = of(breaks), of(breaks)._replace(name="other", promise="P0, P12: it holds")
    found = [Tried(one, "native", Result(1000, 1000)) for one in (first, second)]
    lines = page.lines_of(found, [first, second], short=False)
    assert [*page.table(lines)][2:4] == ["| P0 | 2,000 | - | - | - |", "| P12 | 1,000 | - | - | - |"]


def test_a_campaign_that_tried_nothing_is_no_success(tmp_path: Path) -> None:
    assert result_of(of(lambda trial: ""), tmp_path).is_broken


@pytest.mark.parametrize(("first", "status"), [(Result(3, 3), 0), (Result(3, 2), 1), (Result(), 1)])
def test_the_exit_status_says_whether_any_promise_was_broken(
    first: Result, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Tried(of(breaks), "native", first),
        Tried(of(cannot), "native", Result(untried="no GPU here")),
        Tried(of(breaks), "python", Result(1, 1)),
    ]
    monkeypatch.setattr(command, "run_all", lambda *_: found)
    assert command.main(["--short"]) == status


@pytest.mark.slow("of the campaign of faults; make faults runs it")
def test_only_what_did_not_hold_in_an_earlier_run_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", PATHS)
    settings = Settings(True, 0, 2.0, 1, tmp_path, ["python"])
    kept = Result(5, 5, note="of the earlier run")
    for name, result in (("read-only", kept), ("exceptions", Result(7, 6, failures=["it did not"]))):
        (tmp_path / "python" / name).mkdir(parents=True)
        (tmp_path / "python" / name / "result.json").write_text(json.dumps(result.to_json()))
    chosen = [one for one in CAMPAIGNS if one.name in ("read-only", "exceptions")]
    (_, _, first), (_, _, second) = run_all(chosen, settings, lambda *_: None)
    assert first == kept
    assert second.tried > 7
    assert not second.is_broken


def test_results_of_other_options_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text(
        json.dumps({"short": True, "seed": 1, "fuzz_s": 2.0, "most": None})
    )
    with pytest.raises(SystemExit, match=r"it was made with .*'seed': 1.*, not with .*'seed': 0"):
        command.main(["--short", "--resume", str(tmp_path)])


MARKED = "By hand.\n<!-- made: results -->\nof yesterday\n<!-- end -->\nBy hand, too.\n"


def test_the_page_keeps_what_was_written_by_hand_and_makes_its_results_anew(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    written.write_text(MARKED)
    for _ in range(2):
        page.write(written, [Tried(of(breaks), "python", Result(3, 3))], [of(breaks)], short=True, fuzz_s=2)
    assert written.read_text().startswith("By hand.\n<!-- made: results -->\n| promise |")
    assert written.read_text().endswith(", short form.\n\n<!-- end -->\nBy hand, too.\n")
    assert "| P0 | - | 3 | - | - |\n\nTried on " in written.read_text()
    (line,) = page.read(tmp_path / "data" / "page.csv")
    assert line.day.endswith(", short form")


def test_what_is_tried_again_replaces_its_own_figures_alone(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    written.write_text(MARKED)
    first, second = of(breaks), of(breaks)._replace(name="other", promise="P1: it holds")
    for found in (
        [Tried(first, "native", Result(1, 1)), Tried(second, "native", Result(2, 2))],
        [Tried(second, "python", Result(3, 3, note="a, b"))],
        [Tried(first, "native", Result(4, 3))],
    ):
        page.write(written, found, [first, second], short=False, fuzz_s=2)
    lines = page.read(tmp_path / "data" / "page.csv")
    assert [(one.campaign, one.writer, one.held, one.tried, one.note) for one in lines] == [
        ("name", "native", 3, 4, ""),
        ("other", "native", 2, 2, ""),
        ("other", "python", 3, 3, "a, b"),
    ]
    table = written.read_text().splitlines()[4:6]
    assert table == ["| P0 | **3 of 4** | - | - | - |", "| P1 | 2 | 3 | - | - |"]


def test_the_page_is_what_its_data_say_and_every_campaign_stands_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(part["name"] for part in page.MADE.finditer(text)) == sorted(page.PARTS)
    lines = page.read(PAGE.parent / "data" / "reliability.csv")
    assert [one.promise for one in CAMPAIGNS if one.promise not in {line.promise for line in lines}] == []
    assert "\n".join(page.table(lines)) in text


def test_all_promises_have_a_campaign_and_no_two_have_one_name() -> None:
    numbers = {word.strip(",:") for one in CAMPAIGNS for word in one.promise.partition(": ")[0].split(", ")}
    assert {f"P{number}" for number in range(1, 20)} <= numbers
    assert len({one.name for one in CAMPAIGNS}) == len(CAMPAIGNS)
