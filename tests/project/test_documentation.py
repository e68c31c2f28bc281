"""README and guides do what they say: their snippets run, and what they show was really printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mpi_runner import run_on_ranks
from places import ROOT
from processes import run_warm
from torch_runner import run_under_torchrun

from timing_logger.cli import main

GUIDES = (
    "recording",
    "mpi",
    "optimizer",
    "timers",
    "files",
    "commands",
    "events",
    "dashboards",
    "ci",
    "compare",
    "import",
    "run",
    "migrating",
    "torch-distributed",
)
TRIED_ELSEWHERE = {"torch-distributed"}
"""Pages whose snippets have a test of their own, which looks at the rows that they leave."""
TEXTS = {
    page.stem: page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in GUIDES))
}

SNIPPETS = {
    f"{page}-{number}": snippet
    for page, text in TEXTS.items()
    if page not in TRIED_ELSEWHERE
    for number, snippet in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL), 1)
}
SYMPTOMS = {page.stem: page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("symptom-*.md"))}
SHOWN = [
    pytest.param(command, printed, id=f"{page}: {command}")
    for page, text in {**TEXTS, **SYMPTOMS}.items()
    for command, printed in re.findall(r"^\$ timing-logger (.+?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
]
LEFT_OUT = "...\n"
ANSWERS: dict[str, str] = {}
MAKE_TARGETS = set(re.findall(r"^make ([\w-]+)", TEXTS["README"], re.MULTILINE))
MOST_LINES = 180


def test_the_readme_is_read_in_two_minutes() -> None:
    assert TEXTS["README"].count("\n") <= MOST_LINES


@pytest.mark.parametrize("page", sorted(TEXTS.keys() - TRIED_ELSEWHERE))
def test_there_are_snippets_to_try(page: str) -> None:
    assert f"{page}-1" in SNIPPETS


@pytest.mark.parametrize("snippet", SNIPPETS.values(), ids=SNIPPETS.keys())
def test_a_snippet_runs_as_it_stands(snippet: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "sample").symlink_to(ROOT / "logs" / "sample")
    program = f"import os; os.chdir({str(tmp_path)!r})\n{snippet}"
    if "mpi4py" in snippet:
        (tmp_path / "snippet.py").write_text(program)
        assert run_on_ranks(2, tmp_path / "snippet.py").returncode == 0
    elif 'os.environ["RANK"]' in snippet:
        (tmp_path / "snippet.py").write_text(program)
        assert run_under_torchrun(2, tmp_path / "snippet.py").returncode == 0
    else:
        run = run_warm(program)
        assert run.returncode == 0, run.stderr


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
