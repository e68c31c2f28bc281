"""``import`` makes timing files, says what could not be used, and answers say what is not known."""

from __future__ import annotations

import io
import json
import math
import signal
import subprocess
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import pytest
import warm
from benchmark_outputs import OSU
from conditions import wait_for
from inspector_dumps import write_dumps
from limits import LIMIT_S
from places import ROOT
from processes import INTERRUPTIBLE_CLI
from slow import slow
from step_logs import RANKS, STEPS, step_records, write_json_lines

from timing_logger.cli import main
from timing_logger.cli.questions import QUESTIONS as COMMANDS
from timing_logger.importing import import_inspector
from timing_logger.importing.following import Until
from timing_logger.live.now import snapshot_text
from timing_logger.live.run_page import head_html, head_of
from timing_logger.live.watcher import Watcher
from timing_logger.schema.sidecar import NOT_TOLD
from timing_logger.words.not_told import NEEDED_BY

QUESTIONS = [command.name for command in COMMANDS]

SAMPLE = ROOT / "logs" / "sample"


def steps(tmp_path: Path, *options: str) -> list[str]:
    log = write_json_lines(tmp_path / "train.jsonl", step_records(), "cut", "cut")
    return ["import", "steps", str(log), "-o", str(tmp_path / "out"), "--seconds", "perf.step_s", *options]


def plain(text: str) -> str:
    return " ".join(text.split())


def test_what_was_made_and_left_out_and_is_not_told_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(steps(tmp_path, "--parts", "data, forward")) == 0
    said = plain(capsys.readouterr().out)
    assert "480 rows of 4 ranks, from steps." in said
    assert "The source does not tell the operations in which ranks wait for each other;" in said
    assert "2 records were left out of the import: 2 for a line that is no JSON." in said


ASKED = (*QUESTIONS, "summary --by", "report", "trace", "compare", "watch")


def asked(tmp_path: Path, question: str) -> list[str]:
    """Return the command that asks a question about what was imported."""
    out = str(tmp_path / "out")
    further = {
        "summary --by": ["summary", out, "--by", "rank"],
        "report": ["report", out, "-o", str(tmp_path / "page.html")],
        "trace": ["trace", out, "-o", str(tmp_path / "trace.json")],
        "compare": ["compare", out, "--against", str(SAMPLE)],
        "watch": ["watch", out, "--once"],
    }
    return further.get(question, [question, out])


IN_MOST = ("stragglers", "hang", "watch")
ELSEWHERE = {"report": "a whole page; other answers say it in the same words"}


class Answers:
    """What commands print of one import; each is run once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._printed: dict[tuple[str, ...], str] = {}

    def __call__(self, *command: str) -> str:
        if command not in self._printed:
            out = io.StringIO()
            with redirect_stdout(out):
                assert main([*command]) == 0
            self._printed[command] = out.getvalue()
        return self._printed[command]


@pytest.fixture(scope="module")
def of_steps(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Of a log of steps; the import is in ``folder / "out"``."""
    folder = tmp_path_factory.mktemp("steps")
    answers = Answers(folder)
    answers(*steps(folder))
    return answers


@pytest.mark.parametrize(
    "question",
    [
        one if one in IN_MOST else slow(one, ELSEWHERE.get(one, "said in the same place as of stragglers"))
        for one in ASKED
    ],
)
def test_an_answer_says_what_it_would_need_that_the_source_does_not_tell(
    of_steps: Answers, question: str
) -> None:
    said = plain(of_steps(*asked(of_steps.folder, question)))
    assert "Imported (steps), from what does not tell the operations in which" in said


WITH_JSON = [one for one in ASKED if one not in ("report", "trace", "watch")]


@pytest.mark.parametrize(
    "question",
    [
        one if one == "hang" else slow(one, "made in the same place, of the list of its needs")
        for one in WITH_JSON
    ],
)
def test_json_has_the_same_under_one_key(of_steps: Answers, question: str) -> None:
    told = json.loads(of_steps(*asked(of_steps.folder, question), "--json"))["not_told"]
    assert told[0] == {"kind": "steps", "name": "communication", "text": NOT_TOLD["communication"]}
    assert [one["name"] for one in told] == [
        name
        for name in ("communication", "waits", "instants", "clocks", "end")
        if name in NEEDED_BY[question]
    ]


@pytest.fixture(scope="module")
def of_dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Answers]:
    """Of dumps, verbose and not, of ranks of which one comes late; ``folder`` is what was imported."""
    made = {}
    for verbose in (True, False):
        folder = tmp_path_factory.mktemp(f"dumps{verbose}")
        import_inspector(write_dumps(folder / "dumps", 1, verbose=verbose), folder / "out")
        made[verbose] = Answers(folder / "out")
    return made


with_and_without_instants = pytest.mark.parametrize("verbose", [True, False])


@pytest.mark.slow("the summary below accounts for no wall time either")
@with_and_without_instants
def test_of_a_source_without_instants_no_wall_time_is_accounted_for(
    of_dumps: dict[bool, Answers], *, verbose: bool
) -> None:
    found = json.loads(of_dumps[verbose]("waits", str(of_dumps[verbose].folder), "--json"))
    assert bool(found["account"]) == verbose
    assert found["waits"]


@pytest.mark.parametrize("verbose", [slow(True, "with instants it is as of any run"), False])
def test_without_instants_a_summary_has_no_waits_and_no_shares_and_says_why(
    of_dumps: dict[bool, Answers], *, verbose: bool
) -> None:
    answers = of_dumps[verbose]
    said = plain(answers("summary", str(answers.folder)))
    assert ("The ranks waited" in said, "waiting" in said, "100.0%" in said) == (verbose,) * 3
    assert ("Without instants it is not known who waited for whom" in said) != verbose
    assert (" step: " in said) == verbose
    found = json.loads(answers("summary", str(answers.folder), "--json"))
    known = [found["ranks"][0][name] is not None for name in ("wall_s", "communication_share")]
    assert (known, bool(found["account"])) == ([verbose] * 2, verbose)
    assert (found["operations"][0]["wall_share"] is not None) == verbose


def page_of(answers: Answers) -> str:
    page = answers.folder / "page.html"
    answers("report", str(answers.folder), "-o", str(page))
    return page.read_text("utf-8")


@pytest.mark.slow("a whole page; a summary has as little, and says the same")
@with_and_without_instants
def test_without_instants_the_page_has_no_waits_no_time_and_no_step_and_says_why(
    of_dumps: dict[bool, Answers], *, verbose: bool
) -> None:
    said = page_of(of_dumps[verbose])
    for shown in (
        "The ranks waited",
        "Who waited for whom",
        "A typical slow step",
        "<dt>wall time</dt>",
        "<dt>began (UTC)</dt>",
    ):
        assert (shown in said) == verbose, shown
    assert ("Without instants it is not known who waited for whom" in said) != verbose


@pytest.mark.slow("a summary of such dumps has as little, and says the same")
@with_and_without_instants
def test_without_instants_watch_has_no_waits_no_shares_and_no_rates_and_says_why(
    of_dumps: dict[bool, Answers], *, verbose: bool
) -> None:
    answers = of_dumps[verbose]
    snapshot = Watcher(answers.folder).snapshot()
    figures = [
        value
        for now in snapshot.ranks
        for value in (now.waited_share, now.communication_share, now.rows_per_s, now.iterations_per_s)
    ]
    assert {math.isfinite(value) for value in (*figures, snapshot.window_s)} == {verbose}
    said = plain(snapshot_text(snapshot, 200))
    assert ("Ranks waited for" in said, "s of the run" in said) == (verbose, verbose)
    assert ("Without instants it is not known who waited for whom" in said) != verbose
    assert ("the newest rows of each rank" in said) != verbose
    head = head_of(snapshot, [])
    assert ("s of the run" in head.window, "Ranks waited" in head.waits) == (verbose, verbose)


@pytest.mark.slow("a summary below shows no waits, of which arrows are made")
@with_and_without_instants
def test_without_instants_a_trace_has_no_arrows(
    of_dumps: dict[bool, Answers], tmp_path: Path, *, verbose: bool
) -> None:
    trace = tmp_path / "trace.json"
    said = of_dumps[verbose]("trace", str(of_dumps[verbose].folder), "-o", str(trace))
    assert "240 spans" in said
    assert (" 0 flows" in said) != verbose


@pytest.mark.slow("tests/live/test_events.py has what an event says of an import")
def test_an_event_of_watch_has_what_the_source_does_not_tell(of_dumps: dict[bool, Answers]) -> None:
    said = of_dumps[True]("watch", str(of_dumps[True].folder), "--verdict", "--json")
    [event] = map(json.loads, said.splitlines())
    assert (event["ranks"], [one["name"] for one in event["not_told"]]) == ([1], ["own work", "end"])


def test_of_a_run_that_recorded_itself_nothing_is_said_to_be_not_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bandwidth", str(SAMPLE), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_told"] == []
    assert main(["bandwidth", str(SAMPLE)]) == 0
    assert "Imported" not in capsys.readouterr().out


def test_the_page_over_an_import_that_goes_on_does_not_say_that_nothing_hangs(
    of_steps: Answers,
) -> None:
    head = head_of(Watcher(of_steps.folder / "out").snapshot(), [])
    assert head.whether_it_hangs == "Not as far as that is told."
    assert "Imported (steps), from what does not tell" in head_html(head, 1.8e9, 1.8e9)


def test_the_end_of_an_import_is_not_that_of_the_run(of_steps: Answers) -> None:
    end = json.loads(of_steps(*asked(of_steps.folder, "hang"), "--json"))
    assert (end["state"], end["ended"], end["fates"]) == ("unknown", False, [])
    watched = of_steps(*asked(of_steps.folder, "watch"))
    assert watched.startswith("The import has ended: 4 ranks")


@pytest.mark.slow("a whole page; answers of other commands say it above")
def test_the_page_says_it_too(of_dumps: dict[bool, Answers]) -> None:
    assert "Imported (inspector), from what does not tell" in page_of(of_dumps[False])


def test_an_option_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = steps(tmp_path)
    assert main([*command[:1], "kineto", *command[2:]]) == 2
    assert "--seconds is for import steps, and this is kineto." in capsys.readouterr().err


def test_a_kind_that_is_mistyped_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", "step", "x", "-o", "y"])
    assert "Did you mean 'steps'?" in capsys.readouterr().err


def test_bandwidth_says_how_much_of_what_a_benchmark_reached_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tmp_path / "osu.txt"
    expected.write_text(OSU)
    assert main(["bandwidth", str(SAMPLE), "--expected", str(expected)]) == 0
    said = plain(capsys.readouterr().out)
    assert "of expected" in said
    assert "% of what the OSU benchmarks reached at this size." in said


@pytest.mark.slow("a whole report; the answer says it above")
def test_the_page_has_it_beside_the_bandwidths(tmp_path: Path) -> None:
    expected = tmp_path / "osu.txt"
    expected.write_text(OSU)
    page = tmp_path / "page.html"
    assert main(["report", str(SAMPLE), "--expected", str(expected), "-o", str(page)]) == 0
    text = page.read_text()
    assert "% of what the OSU benchmarks reached at this size." in text
    assert "of expected</th>" in text
    assert "% of what the OSU benchmarks reached</title>" in text


@pytest.mark.slow("a report more; the one that is kept in tests/golden/report.txt has no such column either")
def test_a_page_without_a_benchmark_has_nothing_beside_the_bandwidths(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(SAMPLE), "-o", str(page)]) == 0
    assert "of expected" not in page.read_text()


def test_bandwidth_says_where_the_benchmark_measured_nothing_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tmp_path / "osu.txt"
    expected.write_text("# OSU MPI Scatter Latency Test v7.5\n1024 3.0\n")
    assert main(["bandwidth", str(SAMPLE), "--expected", str(expected)]) == 0
    assert "Nothing here is an operation and a size that the OSU" in plain(capsys.readouterr().out)


@pytest.mark.slow("a summary without instants has no step above")
@pytest.mark.parametrize("question", ["stragglers", "summary"])
def test_of_a_source_without_instants_no_step_is_drawn(of_dumps: dict[bool, Answers], question: str) -> None:
    for verbose, answers in of_dumps.items():
        assert (" step: " in answers(question, str(answers.folder))) == verbose


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="ctrl-c"),
        slow(signal.SIGTERM, "it ends the import as ctrl-c does", id="sigterm"),
    ],
)
def test_a_log_is_followed_until_a_signal_comes_and_its_rows_are_there_meanwhile(
    tmp_path: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        warm.python(),
        "-c",
        INTERRUPTIBLE_CLI,
        *steps(tmp_path, "--parts", "data,forward", "--follow"),
    ]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for((tmp_path / "out" / f"timing-rank{RANKS - 1}.meta.json").exists, by=following)
    assert main(["hang", str(tmp_path / "out")]) == 0
    assert "The import goes on, and follows what grows." in capsys.readouterr().out
    following.send_signal(number)
    out, errors = following.communicate(timeout=LIMIT_S)
    assert following.returncode == 0
    assert f"{2 * RANKS * STEPS} rows of 4 ranks, from steps." in plain(out)
    assert "following " in errors
    assert main(["hang", str(tmp_path / "out")]) == 0
    assert "How the run ended is not told by what it was imported from." in plain(capsys.readouterr().out)


def test_a_log_is_followed_until_nothing_is_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timing_logger.importing.following.Until", partial(Until, interval_s=0.05))
    assert main(steps(tmp_path, "--follow", "--until-idle", "0.1")) == 0
    assert f"{RANKS * STEPS} rows of 4 ranks, from steps." in plain(capsys.readouterr().out)


@pytest.mark.slow("tests/importing follows dumps; the option is tried with a log")
def test_dumps_are_followed_until_nothing_is_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps = write_dumps(tmp_path / "dumps", 1)
    command = [
        "import",
        "inspector",
        str(dumps),
        "-o",
        str(tmp_path / "out"),
        "--follow",
        "--until-idle",
        "0.1",
    ]
    assert main(command) == 0
    assert "240 rows of 4 ranks, from inspector." in plain(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["kineto", "otf2"])
def test_what_is_written_at_the_end_of_a_run_is_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    assert main(["import", kind, "x", "-o", str(tmp_path / "out"), "--follow"]) == 2
    assert "--follow is for files that grow, and" in capsys.readouterr().err


def test_an_end_of_following_without_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(steps(tmp_path, "--until-idle", "3")) == 2
    assert "--until-idle says when --follow ends" in capsys.readouterr().err
