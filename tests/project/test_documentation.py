"""README and guides do what they say: their snippets run, and what they show was really printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from limits import JOB_S, PROCESS_S
from mpi_runner import run_on_ranks
from places import ROOT, TESTS
from processes import run_warm
from slow import slow
from torch_runner import run_under_torchrun

from timing_logger.cli import main

TRIED_ELSEWHERE = {
    "ci": "test_ci_page.py",
    "clocks": "../clock_sync/test_clock_sync.py",
    "clusters": "test_clusters_page.py",
    "frameworks": "test_frameworks.py",
    "large-runs": "../engine/test_workers_cluster.py",
    "metrics": "test_metrics_page.py",
    "torch-distributed": "test_torch_distributed_page.py",
}
"""Pages whose snippets have a test of their own, which looks at what they do, and its file."""
PAGES = (
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if re.search(r"^(```python|\$ timing-logger .*)$", path.read_text("utf-8"), re.MULTILINE)
)
TEXTS = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}

SNIPPETS = {
    f"{page}-{number}": snippet
    for page, text in TEXTS.items()
    if page not in TRIED_ELSEWHERE
    for number, snippet in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL), 1)
}
QUICK = re.compile(r"README-.*|optimizer-1|recording-[13]|run-1")
"""Snippets of the first page, and of each way of use."""
QUICK_OR_SLOW = [
    name if QUICK.fullmatch(name) else slow(name, "those of README and of each way of use are quick")
    for name in SNIPPETS
]
SYMPTOMS = {page: text for page, text in TEXTS.items() if page.startswith("symptom-")}
WORKED_OUT = pytest.mark.slow("tests/cli and tests/golden hold what these commands print")


def is_long(command: str) -> bool:
    return command.split()[0] in ("compare", "summary", "waits", "what-if")


SHOWN = [
    pytest.param(command, printed, id=f"{page}: {command}", marks=WORKED_OUT if is_long(command) else ())
    for page, text in TEXTS.items()
    if page != "hangs"  # the sample does not hang; tests/analysis/hangs has the words
    for command, printed in re.findall(r"^\$ timing-logger (.+?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
]
LEFT_OUT = "...\n"
ANSWERS: dict[str, str] = {}
MAKE_TARGETS = set(re.findall(r"^make ([\w-]+)", TEXTS["README"], re.MULTILINE))
MOST_LINES = 180
RANKS = 2


def test_the_readme_is_read_in_two_minutes() -> None:
    assert TEXTS["README"].count("\n") <= MOST_LINES


@pytest.mark.parametrize("page", TRIED_ELSEWHERE)
def test_what_is_tried_elsewhere_is_read_there(page: str) -> None:
    assert f"{page}.md" in (TESTS / "project" / TRIED_ELSEWHERE[page]).read_text(encoding="utf-8")


ONE_AFTER_THE_OTHER = """
import os, sys, traceback
import timing_logger.cli, timing_logger.reading, timing_logger.analysis

for path in sys.argv[1:]:
    sys.stdout.flush()
    process = os.fork()
    if not process:  # a fork of what is imported runs one snippet, and ends as any program does
        os.dup2(os.open(path + ".stderr", os.O_WRONLY | os.O_CREAT), 2)
        os.chdir(os.path.dirname(path))
        sys.argv[1:] = []
        exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__"})
        break
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with open(path + ".status", "w") as ended:
        ended.write(str(status))
"""
"""Runs the snippets that it is told of, each in a process and folder of its own."""


IN_ONE_JOB = """
import os, sys, traceback
from mpi4py import MPI

for path in sys.argv[1:]:
    os.chdir(os.path.dirname(path))
    try:
        exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__"})
    except BaseException:
        with open(f"{path}.stderr", "a") as file:
            traceback.print_exc(file=file)
        MPI.COMM_WORLD.Abort(1)  # the others may wait for this rank
    open(f"{path}.ended-on-{MPI.COMM_WORLD.rank}", "w").close()
"""
"""Runs the snippets that it is told of on the ranks of one job, as a start takes most of the time."""


def files_of(
    chosen: Callable[[str], bool], request: pytest.FixtureRequest, folders: pytest.TempPathFactory
) -> dict[str, Path]:
    """Write the snippets of such a kind that the tests which are run want, each in a folder of its own."""
    tests = [item for item in request.session.items if item.path == request.path]
    names = {item.callspec.params.get("name") for item in tests if hasattr(item, "callspec")}
    paths = {}
    for name, snippet in SNIPPETS.items():
        if name in names and chosen(snippet):
            paths[name] = folder_with_sample(folders.mktemp(name)) / "snippet.py"
            paths[name].write_text(snippet)
    return paths


@pytest.fixture(scope="module")
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of the snippets that are programs of one process; those of the chosen tests have run."""
    paths = files_of(lambda snippet: not is_of_ranks(snippet), request, tmp_path_factory)
    run = run_warm(ONE_AFTER_THE_OTHER, *paths.values(), timeout_s=4 * PROCESS_S)
    assert run.returncode == 0, run.stderr
    return paths


@pytest.fixture(scope="module")
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of the snippets for mpi4py; those of the chosen tests have run, up to one that failed."""
    paths = files_of(lambda snippet: "mpi4py" in snippet, request, tmp_path_factory)
    program = tmp_path_factory.mktemp("job") / "snippets.py"
    program.write_text(IN_ONE_JOB)
    run_on_ranks(RANKS, program, *map(str, paths.values()), limit_s=2 * JOB_S)
    return paths


def is_of_ranks(snippet: str) -> bool:
    return "mpi4py" in snippet or 'os.environ["RANK"]' in snippet


def said_in(path: Path) -> str:
    return path.read_text() if path.exists() else "a snippet before it ended the job"


def folder_with_sample(folder: Path) -> Path:
    (folder / "logs").mkdir()
    (folder / "logs" / "sample").symlink_to(ROOT / "logs" / "sample")
    return folder


@pytest.mark.parametrize("name", QUICK_OR_SLOW)
def test_a_snippet_runs_as_it_stands(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    snippet = SNIPPETS[name]
    if not is_of_ranks(snippet):
        path = request.getfixturevalue("alone")[name]
        assert Path(f"{path}.status").read_text() == "0", Path(f"{path}.stderr").read_text()
        return
    if "mpi4py" in snippet:
        path = request.getfixturevalue("of_mpi")[name]
        ended = [Path(f"{path}.ended-on-{rank}").exists() for rank in range(RANKS)]
        assert ended == [True] * RANKS, said_in(Path(f"{path}.stderr"))
        return
    program = f"import os; os.chdir({str(folder_with_sample(tmp_path))!r})\n{snippet}"
    (tmp_path / "snippet.py").write_text(program)
    assert run_under_torchrun(RANKS, tmp_path / "snippet.py").returncode == 0


@pytest.mark.parametrize("page", sorted(SYMPTOMS))
def test_a_symptom_leads_to_the_answer_in_three_commands(page: str) -> None:
    assert 1 <= SYMPTOMS[page].count("\n$ timing-logger ") <= 3


def test_commands_are_shown() -> None:
    assert len(SHOWN) >= 4


@pytest.mark.parametrize(("command", "printed"), SHOWN)
def test_what_a_command_is_shown_to_print_is_printed(
    command: str, printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")  # what it is in a file or pipe; test runners set their own
    if command not in ANSWERS:  # several pages show the same
        assert main(command.split()) == 0
        ANSWERS[command] = capsys.readouterr().out
    pattern = ".*".join(re.escape(part) for part in printed.split(LEFT_OUT))
    assert re.fullmatch(pattern, ANSWERS[command], re.DOTALL)


def test_the_commands_named_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= MAKE_TARGETS <= targets
