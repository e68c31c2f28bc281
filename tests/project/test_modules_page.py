"""``website/modules_page.py``: every module with what it is for, in a terminal and in the site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from limits import PROCESS_S
from places import ROOT

SCRIPT = ROOT / "website" / "modules_page.py"
WHO = ROOT / "timing_logger" / "analysis" / "verdict" / "who"


def printed(*folders: str) -> str:
    command = [sys.executable, str(SCRIPT), *folders]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_S, check=True).stdout


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from modules_page import page

    return "\n".join(page())


def test_every_module_in_python_is_on_the_page_with_its_purpose(page: str) -> None:
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    modules = [
        file.relative_to(ROOT)
        for package in ("timing_logger", "allreduce_instrumentation")
        for file in (ROOT / package).rglob("*.py")
    ]
    assert len(modules) > 300
    unsaid = []
    for module in modules:
        section = sections.get(module.parent.as_posix(), "")
        entry = (
            section.lstrip("\n")
            if module.name == "__init__.py"
            else section.partition(f"- `{module.name}`: ")[2]
        )
        if not entry or entry.startswith("- "):
            unsaid.append(module)
    assert unsaid == []


def test_sources_in_c_say_on_the_page_what_they_are_for(page: str) -> None:
    assert (
        "- `ring.h`: The ring: records in a mapped file, which outlives the process that writes them.\n"
        in page
    )
    assert "- `core.c`" not in page  # Cython makes it


def test_a_folder_is_printed_by_itself() -> None:
    said = printed(str(WHO.relative_to(ROOT)))
    assert said.startswith("timing_logger/analysis/verdict/who/  ")
    named = [line.split()[0] for line in said.splitlines()[1:] if line[2:3].strip()]
    assert named == sorted({file.name for file in WHO.glob("*.py")} - {"__init__.py"})


def test_a_folder_without_modules_is_an_error(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=PROCESS_S
    )
    assert run.returncode == 1
    assert "name folders of the repository" in run.stderr
