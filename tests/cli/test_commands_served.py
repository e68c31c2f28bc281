"""``watch --serve`` prints the address of a page that is there until Ctrl-C."""

from __future__ import annotations

import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import warm
from limits import LIMIT_S
from places import SAMPLE
from processes import INTERRUPTIBLE_CLI
from simulated_runs import data_parallel, factors
from timing_files import write_table

from timing_logger.cli import main
from timing_logger.cli.commands import _who_can_read
from timing_logger.live.run_page import RunPage


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Give the command, and the lines that it prints."""
    command = [warm.python(), "-c", INTERRUPTIBLE_CLI, "watch", str(folder), "--serve", *options]
    killed_late = ["timeout", "--signal=KILL", str(LIMIT_S), *command]
    with subprocess.Popen(killed_late, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, [process.stdout.readline() for _ in range(2)]
        finally:
            process.send_signal(signal.SIGINT)


def test_it_prints_an_address_that_has_the_page_until_an_interrupt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []

    def wait(_: RunPage) -> None:
        url, who = capsys.readouterr().out.splitlines()
        assert url.startswith("http://127.0.0.1:")
        assert who.startswith("Only this machine can reach it")
        pages.append(urllib.request.urlopen(url, timeout=LIMIT_S).read().decode())
        raise KeyboardInterrupt

    monkeypatch.setattr(RunPage, "wait", wait)
    run = write_table(tmp_path, data_parallel(factors(5, 2)))
    assert main(["watch", str(run), "--serve", "--window", "1e9"]) == 0
    assert "The run ended: 2 ranks" in pages[0]


@pytest.mark.slow("a process for it; that the address has the page until an interrupt is tried above")
def test_it_prints_an_address_that_has_the_page_until_ctrl_c(tmp_path: Path) -> None:
    run = write_table(tmp_path, data_parallel(factors(5, 2)))
    with serving(run, "--window", "1e9") as (process, (url, who)):
        page = urllib.request.urlopen(url.strip(), timeout=LIMIT_S).read().decode()
    assert "The run ended: 2 ranks" in page
    assert url.startswith("http://127.0.0.1:")
    assert who.startswith("Only this machine can reach it")
    assert process.returncode == 0


def test_who_can_read_a_page_depends_on_its_address() -> None:
    assert _who_can_read("127.0.0.1").startswith("Only this machine can reach it")
    said = _who_can_read("0.0.0.0")
    assert said.startswith("Whoever reaches 0.0.0.0 over the network and knows this address can read it")
    assert "not encrypted" in said


@pytest.mark.slow("another page; what is said of its address is tried above")
def test_on_another_address_it_says_who_can_read(tmp_path: Path) -> None:
    with serving(tmp_path, "--address", "0.0.0.0") as (_, (url, who)):
        assert url.startswith(f"http://{socket.gethostname()}:")
        assert who.startswith("Whoever reaches 0.0.0.0 over the network and knows this address can read it")
        assert "not encrypted" in who


@pytest.mark.parametrize("options", [["--once"], ["--all"], ["--verdict"]])
def test_what_shows_in_the_terminal_does_not_go_with_the_page(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(SAMPLE), "--serve", *options]) == 2
    assert "--serve shows a page" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--open"], ["--address", "0.0.0.0"]])
def test_options_of_the_page_need_it(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(SAMPLE), "--once", *options]) == 2
    assert "give --serve, too" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["65536", "-1", "logs/timing", "8e3"])
def test_what_is_no_port_is_an_error(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["watch", "--serve", port])
    assert "0 to 65535" in capsys.readouterr().err or port == "-1"
