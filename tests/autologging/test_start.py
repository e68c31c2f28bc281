"""How the timing starts in the Python processes of a job, and that they do not notice it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from limits import PROCESS_S, scaled
from places import ROOT
from slow import slow
from timed_jobs import timed_warm

SITE = ROOT / "timing_logger" / "autologging" / "site"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that says whether the timing has started in it; its torch is an empty module."""
    folder = tmp_path_factory.mktemp("torch")
    (folder / "torch.py").write_text("")
    return (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import torch; "
        "print('timing_logger.autologging.session' in sys.modules)"
    )


ONE_MORE_START = pytest.mark.slow("a rarer case; how the timing starts, and that it does not, is quick")
ALSO = pytest.mark.slow("neither the module nor what it raises matters")


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("timing_logger", "SystemExit(9)"),
        pytest.param("dataclasses", "ValueError('mine')", marks=ALSO),
        pytest.param("timing_logger", "ValueError('mine')", marks=ALSO),
        pytest.param("dataclasses", "SystemExit(9)", marks=ALSO),
        *(
            pytest.param(name, raised, marks=ALSO)
            for name in ("logging", "json", "threading", "typing")
            for raised in ("SystemExit(9)", "ValueError('mine')")
        ),
    ],
)
def test_a_module_of_the_programs_that_raises_is_not_imported_unasked(
    name: str, raised: str, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.py").write_text(f"print('imported'); raise {raised}")
    program = shlex.join([sys.executable, "-c", "print('ran')"])
    for folder in ("$PYTHONPATH", f"{tmp_path}:$PYTHONPATH"):  # in the working folder, too
        script = f'cd {tmp_path}; PYTHONPATH="{folder}" exec {program}'
        job = timed_warm(tmp_path / "logs", ["sh", "-c", script])
        assert (job.returncode, job.stdout) == (0, "ran\n"), job.stderr
        assert "Traceback" not in job.stderr


@ONE_MORE_START
def test_a_module_of_the_programs_is_the_one_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("MINE = 5")
    (tmp_path / "program.py").write_text("import queue; print(queue.MINE)")
    assert timed_warm(tmp_path / "logs", [sys.executable, tmp_path / "program.py"]).stdout == "5\n"


def test_a_program_whose_own_module_has_the_packages_name_runs_untimed_and_the_command_says_why(
    tmp_path: Path,
) -> None:
    (tmp_path / "timing_logger.py").write_text("MINE = 5")
    (tmp_path / "torch.py").write_text("")  # the timing starts with it
    (tmp_path / "program.py").write_text("import torch, timing_logger; print(timing_logger.MINE)")
    job = timed_warm(tmp_path / "logs", [sys.executable, tmp_path / "program.py"])
    assert (job.returncode, job.stdout) == (0, "5\n"), job.stderr
    (problem,) = (tmp_path / "logs").glob("autolog-problem-*.txt")
    assert f"taken by {tmp_path / 'timing_logger.py'}" in problem.read_text()
    assert f"not timed in full, as {problem} says" in job.stderr


def test_nothing_of_the_package_is_imported_before_ranks_are_at_work(tmp_path: Path) -> None:
    program = "import sys; print([name for name in sys.modules if name.startswith('timing_logger')])"
    assert timed_warm(tmp_path, [sys.executable, "-c", program]).stdout == "[]\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python in which the package is installed as from a wheel, with what stands beside it."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=PROCESS_S)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("timing_logger_start.pth", "_timing_logger_start.py"):
        shutil.copy(SITE / name, packages)
    paths = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "others.pth").write_text("\n".join(paths))
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    "how", [["-I"], slow(["-E"], "-I implies it"), slow([], "with -I, which sees less, it starts too")]
)
def test_the_installed_package_starts_whatever_pythonpath_is(
    how: list[str], installed: Path, tmp_path: Path, started: str
) -> None:
    with_path_of_its_own = ["env", f"PYTHONPATH={tmp_path}", installed, *how, "-c", started]
    assert timed_warm(tmp_path / "logs", with_path_of_its_own).stdout == "True\n"


def test_the_installed_package_does_nothing_without_the_command(installed: Path, started: str) -> None:
    program = f"{started}; print('_timing_logger_start' in sys.modules)"
    run = subprocess.run(
        [installed, "-c", program], capture_output=True, text=True, timeout=PROCESS_S, check=False
    )
    assert run.stdout == "False\nFalse\n", run.stderr


def test_where_the_package_is_not_installed_the_job_is_timed_by_pythonpath(
    tmp_path: Path, started: str
) -> None:
    job = timed_warm(tmp_path / "logs", [sys.executable, "-c", started], PYTHONPATH="")
    assert job.stdout == "True\n"


@ONE_MORE_START
def test_an_environment_that_is_emptied_is_among_the_causes_that_are_named(
    tmp_path: Path, started: str
) -> None:
    job = timed_warm(tmp_path / "logs", ["env", "-i", sys.executable, "-c", started])
    assert job.stdout == "False\n"
    assert "env -i" in job.stderr


@pytest.mark.slow("builds the package, as the tests of wheels do")
def test_what_starts_the_timing_is_built_beside_the_packages(tmp_path: Path) -> None:
    build = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, timeout=scaled(240))
    assert {"timing_logger_start.pth", "_timing_logger_start.py", "timing_logger"} <= {
        path.name for path in tmp_path.iterdir()
    }
