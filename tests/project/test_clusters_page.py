"""docs/clusters.md: its scripts and manifests can be read, and variables mean what it says of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from limits import PROCESS_S
from places import ROOT

from timing_logger.autologging import settings
from timing_logger.autologging.settings import stated_rank
from timing_logger.cli.parser import build_parser
from timing_logger.process import this_process as run_identity
from timing_logger.process.launchers import LAUNCHERS, VARIABLE_IN_TEXT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install '.[test]')")

PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def variables_of(row: str) -> list[str]:
    """Return the variables that a row of the table names, in its order."""
    (cell,) = re.findall(rf"^\| {row} \| (.*) \|$", PAGE, re.MULTILINE)
    return re.findall(r"`([A-Z0-9_]+)`", cell)


def test_the_ranks_are_taken_from_the_variables_that_the_page_names_in_that_order() -> None:
    named = variables_of("rank and number of ranks")
    of_ranks = [one.rank for one in LAUNCHERS if one.rank]
    assert [name for name in named if name in of_ranks] == of_ranks
    for at, variable in enumerate(of_ranks):
        all_but_earlier = {name: str(number) for number, name in enumerate(of_ranks) if number >= at}
        stated = stated_rank(all_but_earlier)
        assert stated is not None
        assert stated.rank == at, variable


def test_the_run_is_told_by_the_variables_that_the_page_names_in_that_order() -> None:
    named = variables_of("the run")
    deciding = [one.run for one in LAUNCHERS if one.run]
    assert [name for name in named if name in deciding] == deciding
    texts = [one.run_id for one in LAUNCHERS if isinstance(one.run_id, str)]
    assert {name for text in texts for name in re.findall(VARIABLE_IN_TEXT, text)} <= set(named)


def test_the_variables_that_the_command_sets_are_named() -> None:
    assert variables_of("set by `timing-logger run`") == [
        settings.VARIABLE, run_identity.VARIABLE, "PYTHONPATH",
    ]  # fmt: skip


@pytest.mark.parametrize("script", blocks("bash"))
def test_bash_can_read_a_script(script: str) -> None:
    run = subprocess.run(
        ["bash", "-n"], input=script, capture_output=True, text=True, timeout=PROCESS_S, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


STAND_IN_FOR_SRUN = """#!/bin/bash
for task in 0 1; do
  SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 "$@" &
done
wait
"""
SAYS_ITS_RANK = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"


def test_the_script_with_srun_tells_each_task_its_rank(tmp_path: Path) -> None:
    (script,) = (script for script in blocks("bash") if "exec python train.py" in script)
    for name, text in (("srun", STAND_IN_FOR_SRUN), ("scontrol", "#!/bin/bash\necho localhost\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train.py").write_text(SAYS_ITS_RANK)
    programs = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {
        "SLURM_JOB_ID": "7",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_NTASKS": "2",
        "PATH": programs,
    }
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=PROCESS_S, check=False,
    )  # fmt: skip
    assert sorted(run.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"], run.stderr
    assert run.returncode == 0
    assert (tmp_path / "logs" / "7").is_dir()


def containers(node: Any) -> list[Any]:
    """Return the containers of all pods of a manifest."""
    if isinstance(node, list):
        return [found for each in node for found in containers(each)]
    if isinstance(node, dict):
        return [*node.get("containers", []), *(found for each in node.values() for found in containers(each))]
    return []


MANIFESTS = [yaml.safe_load(text) for text in blocks("yaml")]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_a_manifest_times_its_program_and_keeps_the_files_on_the_claim(manifest: Any) -> None:
    (container,) = {one["name"]: one for one in containers(manifest)}.values()
    command = container["command"]
    words = command[-1].split() if command[0] == "bash" else command
    arguments = build_parser().parse_args(words[words.index("timing-logger") + 1 :])
    assert arguments.job[-2:] == ["python", "train.py"]
    (claim,) = re.findall(r"'name': '(\w+)', 'persistentVolumeClaim'", str(manifest))
    mounted = {one["mountPath"] for one in container["volumeMounts"] if one["name"] == claim}
    assert any(arguments.log_dir.startswith(path) for path in mounted)


def test_there_is_a_manifest_of_each_kind_that_the_page_speaks_of() -> None:
    assert {manifest["kind"] for manifest in MANIFESTS} == {"PyTorchJob", "Job"}
