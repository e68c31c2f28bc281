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
from places import HELPERS, ROOT, TESTS

PAGE = ROOT / "docs" / "reliability.md"
PATHS = os.pathsep.join(
    map(str, [ROOT, HELPERS, TESTS / "faults", *filter(None, [os.environ.get("PYTHONPATH")])])
)


@pytest.mark.slow
@pytest.mark.serial
def test_every_promise_holds_in_the_short_form_of_make_faults(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "campaign", "--short"], cwd=tmp_path, capture_output=True, text=True,
        timeout=900, env={**os.environ, "PYTHONPATH": PATHS}, check=False,
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
    (row,) = page.rows_of([Tried(of(breaks), "python", result)], [of(breaks)], short=False)
    line = page.recording_table([row])[-1]
    assert line.startswith("| P0: it holds | as is |  | **broken: 2 of 3** |  | ")
    assert line.endswith(" | a note |")


def test_what_could_not_be_tried_says_why(tmp_path: Path) -> None:
    reads = of(cannot)._replace(records=False)
    result = result_of(reads, tmp_path)
    assert not result.is_broken
    table = page.reading_table(page.rows_of([Tried(reads, "", result)], [reads], short=False))
    assert table[-1].endswith("| not tried |  | no GPU here |")


def test_each_writer_has_a_column_and_what_is_the_same_of_several_is_noted_once() -> None:
    campaign = of(breaks)._replace(native_mpi="it has no iterations")
    both = [
        Tried(campaign, writer, Result(3, held, note="a note"))
        for writer, held in (("native", 3), ("python", 2))
    ]
    line = page.recording_table(page.rows_of(both, [campaign], short=False))[-1]
    assert line.startswith("| P0: it holds | as is | 3 of 3 | **broken: 2 of 3** | not tried | ")
    assert line.endswith(" | native, python: a note; native-mpi: it has no iterations |")


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


def test_the_page_keeps_what_was_written_by_hand_and_makes_its_tables_anew(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    written.write_text("By hand.\n<!-- made: recording -->\nof yesterday\n<!-- end -->\nBy hand, too.\n")
    for _ in range(2):
        page.write(written, [Tried(of(breaks), "python", Result(3, 3))], [of(breaks)], short=True, fuzz_s=2)
    text = written.read_text()
    assert text.startswith("By hand.\n<!-- made: recording -->\n| promise |")
    assert text.endswith(", short form |  |\n<!-- end -->\nBy hand, too.\n")
    assert "yesterday" not in text


def test_what_is_tried_again_replaces_its_own_figures_alone(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    written.write_text("<!-- made: recording -->\n<!-- end -->\n")
    first, second = of(breaks), of(breaks)._replace(name="other", promise="P1: it holds")
    for found in (
        [Tried(first, "native", Result(1, 1)), Tried(second, "native", Result(2, 2))],
        [Tried(second, "python", Result(3, 3))],
        [Tried(first, "native", Result(4, 3))],
    ):
        page.write(written, found, [first, second], short=False, fuzz_s=2)
    lines = written.read_text().splitlines()[3:5]
    assert [line.split(" | ")[:4] for line in lines] == [
        ["| P0: it holds", "as is", "**broken: 3 of 4**", ""],
        ["| P1: it holds", "as is", "2 of 2", "3 of 3"],
    ]


def test_figures_of_several_days_say_of_which_they_are() -> None:
    row = page.Row(of(breaks), {
        "native": {"tried": 1, "held": 1, "note": "", "untried": "", "broken": False, "day": "2026-11-24"},
        "python": {"tried": 1, "held": 1, "note": "", "untried": "", "broken": False, "day": "2026-11-25"},
    })  # fmt: skip
    assert "| native: 2026-11-24; python: 2026-11-25 |" in page.recording_table([row])[-1]


def test_every_mark_of_the_page_is_known_and_every_promise_stands_in_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(part["name"] for part in page.MADE.finditer(text)) == sorted(page.PARTS)
    assert [one.promise for one in CAMPAIGNS if one.promise not in text] == []


def test_all_promises_have_a_campaign_and_no_two_have_one_name() -> None:
    numbers = {word.strip(",:") for one in CAMPAIGNS for word in one.promise.partition(": ")[0].split(", ")}
    assert {f"P{number}" for number in range(1, 20)} <= numbers
    assert len({one.name for one in CAMPAIGNS}) == len(CAMPAIGNS)
