"""Only the door opens files in folders that others may write to: whatever is done, seen by an audit hook."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import warm
from limits import JOB_S
from places import TESTS

PROGRAM = TESTS / "command_programs" / "files_by_the_door.py"
DONE = {"open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "fcntl.flock"}


def test_commands_writers_monitors_and_caches_come_to_such_files_by_the_door_alone(tmp_path: Path) -> None:
    helpers = os.pathsep.join(map(str, (TESTS.parent, TESTS / "helpers")))
    done = subprocess.run(
        [warm.python(), str(PROGRAM), str(tmp_path), "everything"],
        capture_output=True, text=True, timeout=JOB_S, check=False,
        env={**os.environ, "PYTHONPATH": helpers},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["beside"] == []
    assert found["by_door"].keys() >= DONE  # else nothing was looked at
