"""What is documented to be done with events is done: a node is drained, a chat is told."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from http_receivers import receiving, status
from limits import LIMIT_S
from places import ROOT

from timing_logger.analysis import Verdict
from timing_logger.engine.changes import Change
from timing_logger.live.delivery import EventDelivery, NotDelivered, VerdictsFile
from timing_logger.live.events import Event, WatchedRun, event_line, event_of
from timing_logger.live.webhook import Webhook

SCRIPT = ROOT / "examples" / "drain_slow_nodes.py"
TOKEN = "between us"
RUN = WatchedRun("slurm-17.0", "17", 4, {0: "n0", 1: "n1", 2: "n2.cluster.example", 3: "n3"})
CALLED = ["update", "NodeName=n2", "State=DRAIN", "Reason=timing_logger: FORWARD is slow, costs 30% of 17"]


def slow(**others: Any) -> Event:
    """Return the event of a slow rank; ``others`` are other values of its verdict."""
    values = {"verdict": "rank", "ranks": (2,), "operation": "FORWARD", "owner": "machine", "cost_share": 0.3}
    return event_of(Change("begins", Verdict(**{**values, **others}), 70, None, 0.0), RUN)


@pytest.fixture
def scontrol(tmp_path: Path) -> Path:
    """Put a stand-in for ``scontrol`` on the path, and return the file with what it was called with."""
    programs, calls = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    stand_in = programs / "scontrol"
    program = f"import json, sys; print(json.dumps(sys.argv[1:]), file=open({str(calls)!r}, 'a'))"
    stand_in.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", program])} "$@"\n')
    stand_in.chmod(0o755)
    calls.touch()
    return calls


def environment(scontrol: Path) -> dict[str, str]:
    path = f"{scontrol.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "DRAIN_TOKEN": TOKEN}


def told(scontrol: Path, events: list[Event | str], *options: str) -> subprocess.CompletedProcess[str]:
    """Tell the script of events on stdin, and wait for its end."""
    lines = "".join(f"{one if isinstance(one, str) else event_line(one)}\n" for one in events)
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options], input=lines, env=environment(scontrol), text=True,
        capture_output=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip


def calls_in(scontrol: Path) -> list[list[str]]:
    return [json.loads(line) for line in scontrol.read_text().splitlines()]


ONE_MORE = pytest.mark.slow("a rarer case of the script; what it drains, and what it leaves alone, is quick")


def test_the_node_of_a_slow_rank_is_drained_once_though_the_event_comes_twice(scontrol: Path) -> None:
    run = told(scontrol, [slow(), slow()], "--drain")
    assert calls_in(scontrol) == [CALLED]
    assert run.stdout.startswith("drained n2: ")


def test_without_permission_it_only_says_what_it_would_do(scontrol: Path) -> None:
    assert told(scontrol, [slow()]).stdout == f"with --drain: scontrol {' '.join(CALLED)}\n"
    assert calls_in(scontrol) == []


def test_what_is_not_certain_drains_nothing(scontrol: Path) -> None:
    others: list[Event] = [
        {"owner": "work"}, {"owner": "unknown"}, {"verdict": "role"}, {"event": "hang"}, {"change": "ends"},
        {"cost_share": 0.05}, {"cost_share": None}, {"named": [{"rank": 2, "node": None}]},
        {"named": [{"rank": 2, "node": "n[0-9999]"}]}, {"named": [{"rank": 2, "node": "ALL State=DOWN"}]},
    ]  # fmt: skip
    assert told(scontrol, [{**slow(), **other} for other in others], "--drain").stdout == ""
    assert calls_in(scontrol) == []


@ONE_MORE
def test_no_more_nodes_are_drained_than_allowed(scontrol: Path) -> None:
    run = told(scontrol, [slow(ranks=(2, 3, 1))], "--drain", "--most", "2")
    assert [call[1] for call in calls_in(scontrol)] == ["NodeName=n2", "NodeName=n3"]
    assert "n1 is left alone" in run.stdout


@ONE_MORE
def test_a_torn_line_is_said_and_the_next_is_read(scontrol: Path) -> None:
    run = told(scontrol, ['{"version": 1, "id', "[]", "{}", slow()], "--drain")
    assert calls_in(scontrol) == [CALLED]
    assert run.stderr.count("this is no event") == 2


@ONE_MORE
def test_that_scontrol_fails_is_said(scontrol: Path) -> None:
    (scontrol.parent / "bin" / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    assert "n2 was not drained" in told(scontrol, [slow()], "--drain").stderr


@contextmanager
def listening(scontrol: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, str(SCRIPT), "--drain", "--listen", "127.0.0.1:0"]
    killed_late = ["timeout", "--signal=KILL", str(LIMIT_S), *command]
    with subprocess.Popen(
        killed_late, env=environment(scontrol), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as script:
        try:
            assert script.stdout is not None
            at = re.fullmatch(r"listening at (\S+)\n", script.stdout.readline())
            assert at is not None
            yield f"http://{at[1]}", script
        finally:
            script.terminate()


def test_a_webhook_reaches_it_with_the_token(scontrol: Path) -> None:
    with listening(scontrol) as (url, script):
        said: list[str] = []
        webhook = Webhook(url, headers={"Authorization": f"Bearer {TOKEN}"})
        delivery = EventDelivery([webhook], said.append)
        delivery.deliver(slow())
        assert (delivery.close(LIMIT_S), said) == (0, [])
        assert script.stdout is not None
        assert script.stdout.readline().startswith("drained n2: ")
    assert calls_in(scontrol) == [CALLED]


@pytest.mark.slow("the token that is right is quick")
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer guessed"}])
def test_whoever_does_not_know_the_token_drains_nothing(headers: dict[str, str], scontrol: Path) -> None:
    with listening(scontrol) as (url, _), pytest.raises(NotDelivered, match="it answers 401"):
        Webhook(url, headers=headers).receive(slow())
    assert calls_in(scontrol) == []


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="needs jq and curl")
def test_the_commands_of_the_page_post_each_event_to_a_chat(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "events.md").read_text("utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    from_the_beginning = commands.replace("tail -n 0", "tail -n +1")
    assert from_the_beginning != commands
    file = VerdictsFile(tmp_path / "logs" / "timing")
    file.path.parent.mkdir(parents=True)
    with receiving(status(200)) as chat:
        (tmp_path / "chat.curl").write_text(f'url = "{chat.url}/T0P-S3CRET"\n')
        file.receive(slow())
        limited = ["timeout", "--signal=KILL", str(LIMIT_S), "bash", "-c", from_the_beginning]
        with subprocess.Popen(limited, cwd=tmp_path, start_new_session=True) as posting:
            try:
                chat.wait_for(1)
                file.receive(slow(ranks=(3,)))
                chat.wait_for(2)
            finally:
                os.killpg(posting.pid, signal.SIGKILL)
    assert [body["text"].startswith("begins in slurm-17.0: rank ") for body in chat.bodies] == [True, True]
    assert chat.paths == ["/T0P-S3CRET"] * 2
