"""A program that the warm parent runs has what it would in an interpreter of its own, or it gets one."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm
from conditions import wait_for
from limits import LIMIT_S, PROCESS_S
from places import TESTS

pytestmark = [
    pytest.mark.slow("of what tests are run with: make test-deep runs it where that changes"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: every program starts cold"),
]

NAME = "wave"  # of the standard library, and nothing else imports it: it is there if a program is warm


@pytest.fixture(scope="module")
def python() -> str:
    """A parent that has imported two small modules."""
    return warm.start([NAME, "numpy.random"])


def ran(interpreter: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"stdin": subprocess.DEVNULL, **options}
    command = [interpreter, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_S, check=False, **options)


IS_WARM = f"import sys; print({NAME!r} in sys.modules)"


def test_it_is_the_parent_that_runs_a_program(python: str) -> None:
    assert ran(python, "-c", IS_WARM).stdout == "True\n"


@pytest.mark.parametrize("is_file", [True, False])
def test_annotations_are_no_texts_where_the_program_does_not_say_so(
    is_file: bool, python: str, tmp_path: Path
) -> None:
    program = "def told(of: int) -> None: ...\nprint(told.__annotations__['of'])"
    file = tmp_path / "program.py"
    file.write_text(program)
    assert ran(python, *([file] if is_file else ["-c", program])).stdout == "<class 'int'>\n"


# -- what a program has -------------------------------------------------------------------------------------

STATE = """
import json, multiprocessing, os, resource, signal, sys, tempfile, time
main = sys.modules["__main__"]
streams = [sys.stdout, sys.stderr]
print(json.dumps({
    "arguments": [sys.argv, sys.orig_argv[1:]],
    "modules": [sys.path, sys.executable, sys.prefix, str(sys.flags)],
    "main": [getattr(main, "__file__", ""), main.__name__, str(main.__package__), bool(main.__spec__)],
    "environment": [sorted(os.environ.items()), os.getcwd(), tempfile.gettempdir(), time.tzname],
    "spawned from": multiprocessing.process.ORIGINAL_DIR,
    "limits": [resource.getrlimit(value) for name, value in vars(resource).items() if name[:7] == "RLIMIT_"],
    "scheduling": [os.umask(0), os.nice(0), sorted(os.sched_getaffinity(0))],
    "signals": [str(signal.getsignal(each)).split(" at ")[0] for each in sorted(signal.valid_signals())],
    "blocked": sorted(map(str, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "streams": [[s.name, s.encoding, s.errors, s.line_buffering, s.write_through, str(type(s.buffer))]
                for s in streams],
    "descriptors": sorted(map(int, os.listdir("/proc/self/fd"))),
    "in a terminal": [os.isatty(number) for number in range(3)],
}))
"""


def changed_by_its_starter() -> None:
    os.umask(0o027)
    os.nice(2)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 2_000_000))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


WAYS: dict[str, tuple[list[str], dict[str, str], Callable[[], None] | None]] = {
    "text": (["-c", STATE, "an argument", "", "-u"], {}, None),
    "file": (["state.py", "-c"], {}, None),
    "module": (["-m", "state", "x"], {}, None),
    "unbuffered": (["-u", "-c", STATE], {}, None),
    "unbuffered by a variable": (["-c", STATE], {"PYTHONUNBUFFERED": "1"}, None),
    "limits and signals": (["-c", STATE], {}, changed_by_its_starter),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_program_has_what_it_has_in_an_interpreter_of_its_own(
    python: str, tmp_path: Path, way: str
) -> None:
    (tmp_path / "a 'folder'").mkdir()
    (tmp_path / "a 'folder'" / "state.py").write_text(STATE)
    arguments, variables, changed = WAYS[way]
    environment = {
        **os.environ, "PYTHONPATH": f"{TESTS}::beside", "TMPDIR": str(tmp_path), "TZ": "Asia/Tokyo",
        "A": "b=c\nd", "PYTHONUNBUFFERED": "", **variables,
    }  # fmt: skip
    options = {"cwd": tmp_path / "a 'folder'", "env": environment, "preexec_fn": changed}
    fresh, forked = (json.loads(ran(each, *arguments, **options).stdout) for each in (sys.executable, python))
    for name in fresh:
        assert forked[name] == fresh[name], name


def test_programs_draw_different_random_numbers(python: str) -> None:
    draw = "import random, numpy.random; print(random.random(), numpy.random.random())"
    one, other = (ran(python, "-c", draw).stdout.split() for _ in range(2))
    assert set(one).isdisjoint(other)


def test_a_script_can_spawn_processes_that_import_it(python: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import multiprocessing\n"
        "def square(x): return x * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(square, [3]))\n"
    )
    done = ran(python, "script.py", cwd=tmp_path)
    assert done.stdout == "[9]\n", done.stderr


# -- how it ends --------------------------------------------------------------------------------------------

ENDS = {
    "a number": "raise SystemExit(7)",
    "a negative number": "raise SystemExit(-2)",
    "a number too large": "raise SystemExit(256)",
    "a text": "raise SystemExit('so it ends')",
    "an error": "import json\ndef f(): json.loads('{')\nf()",
    "an error of its syntax": "x = = 1",
    "an interrupt": "raise KeyboardInterrupt",
    "a signal": "import os\nos.abort()",
    "what is registered": "import atexit\natexit.register(print, 'at the end')\nprint('before', end='')",
    "a thread": "import threading\nthreading.Timer(0.05, print, ['late']).start()",
    "no room for output": "import os, sys\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('lost')",
    "at once": "import os\nprint('lost', flush=False)\nos._exit(3)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_as_in_an_interpreter_of_its_own(python: str, tmp_path: Path, end: str) -> None:
    (tmp_path / "it.py").write_text(ENDS[end])
    arguments = ["it.py"] if end.startswith("an error") else ["-c", ENDS[end]]
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONUNBUFFERED": ""}}
    fresh, forked = (ran(each, *arguments, **options) for each in (sys.executable, python))
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    if end != "no room for output":  # where Python says more
        assert forked.stderr == fresh.stderr


def test_a_module_that_is_not_there_is_said_to_be(python: str) -> None:
    fresh, forked = (ran(each, "-m", "no_such_module") for each in (sys.executable, python))
    assert (forked.returncode, forked.stderr) == (fresh.returncode, fresh.stderr)


COUNTS_SIGNALS = """
import signal
signals = [signal.SIGHUP, signal.SIGINT, signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]
for each in signals:
    signal.signal(each, lambda number, frame: print(number, flush=True))
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # ignored in a job in the background
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_signals_are_passed_on(python: str) -> None:
    with subprocess.Popen([python, "-c", COUNTS_SIGNALS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            process.send_signal(sent)
            assert process.stdout.readline() == f"{int(sent)}\n"
        process.send_signal(signal.SIGQUIT)
        assert process.wait(LIMIT_S) == -signal.SIGQUIT


def test_a_signal_at_any_time_ends_a_program_that_does_not_heed_it(python: str) -> None:
    for number in range(40):
        process = subprocess.Popen([python, "-c", "import time; time.sleep(1000)"])
        time.sleep(number / 4000)  # before it has connected, or been forked, or after
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == -signal.SIGTERM


WITH_A_CHILD = """
import subprocess, time
subprocess.Popen(["sleep", "1000"])
print("ready", flush=True)
time.sleep(1000)
"""


def test_a_program_and_what_it_started_end_with_the_process_that_stands_for_it(python: str) -> None:
    with subprocess.Popen([python, "-c", WITH_A_CHILD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert process.stdout.read() == ""  # nobody holds the other end


STARTS_ONE = f"""
import subprocess, sys, time
import warm
subprocess.Popen([warm.start([]), "-c", {WITH_A_CHILD!r}])
time.sleep(1000)
"""


def test_parent_and_programs_end_with_the_tests_even_if_those_are_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS / "helpers"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", STARTS_ONE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert process.stdout.read() == ""
    wait_for(lambda: not list(tmp_path.iterdir()), "the parent's folder to be removed")


# -- what takes an interpreter of its own -------------------------------------------------------------------


@pytest.mark.parametrize("flags", [["-X", "dev"], ["-I"], ["-W", "error"], ["-O"]], ids=" ".join)
def test_flags_take_an_interpreter_of_their_own(python: str, flags: list[str]) -> None:
    assert ran(python, *flags, "-c", IS_WARM).stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [("PYTHONHASHSEED", "7"), ("LD_PRELOAD", "libm.so.6"), ("OMP_NUM_THREADS", "2"), ("LC_ALL", "C")],
)
def test_so_do_variables_that_are_read_at_the_start(python: str, name: str, value: str) -> None:
    assert ran(python, "-c", IS_WARM, env={**os.environ, name: value}).stdout == "False\n"


@pytest.mark.parametrize("where", ["PYTHONPATH", "beside", "folder"])
@pytest.mark.parametrize("name", [NAME, "sitecustomize"])
def test_so_does_a_module_of_ones_own_in_place_of_one_that_is_imported(
    python: str, tmp_path: Path, where: str, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "script.py").write_text(IS_WARM)
    if where == "PYTHONPATH":
        done = ran(python, "-c", IS_WARM, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    elif where == "beside":
        done = ran(python, tmp_path / "script.py")
    else:
        done = ran(python, "-c", IS_WARM, cwd=tmp_path)
    assert done.stdout == "False\n"


def test_a_sitecustomize_can_be_asked_to_run_in_a_fork(python: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customized')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), warm.SITE: "1"}
    assert ran(python, "-c", IS_WARM, env=environment).stdout == "customized\nTrue\n"


def test_so_does_a_stream_that_is_closed(python: str) -> None:
    close = "import os, sys; os.close(0); os.execv(sys.argv[1], sys.argv[1:])"
    said = f"{IS_WARM}; print(sys.stdin)"
    assert ran(sys.executable, "-c", close, python, "-c", said).stdout == "False\nNone\n"


def test_so_does_a_descriptor_that_is_inherited(python: str) -> None:
    with Path(os.devnull).open() as inherited:
        read = f"{IS_WARM}; import os; print(os.read({inherited.fileno()}, 1))"
        done = ran(python, "-c", read, pass_fds=[inherited.fileno()])
    assert done.stdout == "False\nb''\n", done.stderr


def without_new_privileges() -> None:
    assert not ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


def test_so_do_fewer_rights(python: str) -> None:
    assert ran(python, "-c", IS_WARM, preexec_fn=without_new_privileges).stdout == "False\n"


def test_so_does_a_folder_that_is_gone(python: str) -> None:
    leave = "import os, sys, tempfile; os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd()); "
    leave += "os.execv(sys.argv[1], sys.argv[1:])"
    said = f"{IS_WARM}; import os; print(os.path.exists('.'))"
    assert ran(sys.executable, "-c", leave, python, "-c", said).stdout == "False\nTrue\n"


# -- the parent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", b"x", b"xyz" * 10_000], ids=["nothing", "a byte", "much"])
@pytest.mark.parametrize("stays", [True, False], ids=["stays", "leaves"])
def test_who_asks_for_nothing_keeps_nobody_waiting(python: str, said: bytes, stays: bool) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(Path(python).parent / "socket"))
        stranger.sendall(said)
        if not stays:
            stranger.close()
        assert ran(python, "-c", IS_WARM).stdout == "True\n"


def test_many_programs_run_at_once(python: str) -> None:
    echo = "import sys; text = sys.stdin.read(); print(text, end=''); sys.exit(int(text))"
    running = [
        subprocess.Popen([python, "-c", echo], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(20)
    ]
    for number, process in enumerate(running):
        assert process.communicate(str(number), timeout=LIMIT_S)[0] == str(number)
        assert process.returncode == number


def test_the_folder_for_temporary_files_may_have_any_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / ("""it's "so" $HOME\\ """ + 40 * "long")
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    python = warm.start([NAME])
    assert python.startswith(str(folder))
    assert ran(python, "-c", IS_WARM).stdout == "True\n"


@pytest.mark.parametrize("compiler", [None, "#!/bin/sh\nexit 1\n"], ids=["none", "fails"])
def test_without_a_compiler_that_works_all_programs_have_interpreters_of_their_own(
    compiler: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if compiler:
        (tmp_path / "cc").write_text(compiler)
        (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert warm.start([NAME]) == sys.executable


def test_once_the_parent_has_gone_programs_have_interpreters_of_their_own(tmp_path: Path) -> None:
    leaves = f"""
        import os, shutil, subprocess, sys
        import warm
        python = warm.start([{NAME!r}])
        folder, all_but = os.path.dirname(python), shutil.ignore_patterns("socket")
        kept = shutil.copytree(folder, sys.argv[1], symlinks=True, ignore=all_but)
        print(subprocess.run([kept + "/python", "-c", {IS_WARM!r}], capture_output=True, text=True).stdout)
    """
    environment = {**os.environ, "PYTHONPATH": str(TESTS / "helpers")}
    done = ran(sys.executable, "-c", textwrap.dedent(leaves), tmp_path / "kept", env=environment)
    assert done.stdout.split() == ["False"], done.stderr
