"""The frames of threads are taken without the deadlock that Python before 3.12 risks in it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from types import FrameType

import pytest
from limits import PROCESS_S

from timing_logger.recording import autograd_threads
from timing_logger.recording.autograd_threads import (
    current_frames,
    frame_of_main_thread,
    frames_of_program,
    from_innermost,
    is_library,
    short_path,
)

COLLECTING_IN_THREADS = """
import gc, threading, time
from timing_logger.recording.autograd_threads import current_frames

class SlowToGo:
    def __del__(self):
        time.sleep(0.0002)  # another thread runs meanwhile

def look():
    for _ in range(300):
        garbage = SlowToGo()
        garbage.itself = garbage
        del garbage
        current_frames()

gc.set_threshold(1)
threads = [threading.Thread(target=look, daemon=True) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done", gc.isenabled())
"""


def output_of(program: str) -> str:
    job = [sys.executable, "-c", program]
    return subprocess.run(job, stdout=subprocess.PIPE, text=True, timeout=PROCESS_S, check=True).stdout


@pytest.mark.slow("a race, by chance; what frames are seen is quick")
def test_threads_that_look_at_each_other_while_garbage_is_collected_do_not_block_for_ever() -> None:
    assert output_of(COLLECTING_IN_THREADS) == "done True\n"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_stays_on_or_off(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    monkeypatch.setattr(autograd_threads, "_COLLECTS_IN_ALLOCATIONS", True)
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        assert threading.get_ident() in current_frames()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.slow("an error that only a hook can raise; that the collector stays on or off is quick")
def test_the_collector_is_on_again_after_a_hook_that_audits_refused() -> None:
    refusing = (
        "import gc, sys\n"
        "from timing_logger.recording import autograd_threads\n"
        "autograd_threads._COLLECTS_IN_ALLOCATIONS = True\n"
        "def hook(event, args):\n"
        "    if event == 'sys._current_frames': raise PermissionError\n"
        "sys.addaudithook(hook)\n"
        "try: autograd_threads.current_frames()\n"
        "except PermissionError: print(gc.isenabled())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", refusing], capture_output=True, text=True, timeout=PROCESS_S, check=False
    )
    assert done.stdout == "True\n"


def test_the_innermost_frame_comes_first() -> None:
    names = [frame.f_code.co_name for frame in from_innermost(frame_of_main_thread())]
    assert names.index("frame_of_main_thread") < names.index("test_the_innermost_frame_comes_first")


@pytest.mark.parametrize(
    ("file", "short"), [("/home/me/job/train.py", "job/train.py"), ("train.py", "train.py")]
)
def test_of_a_path_the_last_two_parts_are_told(file: str, short: str) -> None:
    assert short_path(file) == short


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (threading.__file__, True),
        ("<frozen runpy>", True),
        ("/venv/lib/site-packages/torch/nn.py", True),
        ("/usr/lib/python3/dist-packages/numpy/core.py", True),
        ("/home/me/site-packages.py", False),
        ("<string>", False),
        ("train.py", False),
    ],
)
def test_a_file_is_of_a_library_if_it_was_installed(file: str, library: bool) -> None:
    assert is_library(file) is library


def test_frames_of_these_packages_are_not_the_programs() -> None:
    def program(module: object) -> FrameType:
        found = eval("(lambda: sys._getframe())()", {"sys": sys, "__name__": module})
        assert isinstance(found, FrameType)
        return found

    names = ("timing_logger.sinks.csv", "allreduce_instrumentation.mpi", "timing_loggers", "train", None)
    theirs = [name for name in names if next(frames_of_program(program(name))).f_globals["__name__"] == name]
    assert theirs == ["timing_loggers", "train", None]


def test_a_thread_without_frames_has_no_program() -> None:
    assert list(frames_of_program(None)) == []
