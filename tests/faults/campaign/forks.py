"""Forks a process while other threads record. (P9)"""

from __future__ import annotations

from fault_programs import FORKS_UNDER_LOAD
from processes import rows, run_python

from campaign.trial import Trial


def forks(trial: Trial) -> str:
    """Fork many times while two threads record: the parent's records are kept, children write none."""
    total, each = trial.times(500, 50), 50
    for number in range(total // each):
        with trial.new_folder() as folder:
            try:
                run = run_python(FORKS_UNDER_LOAD, folder, each, timeout_s=120)
                assert run.returncode == 0, run.stderr
                assert {row[4] for row in rows(folder / "timing-rank0.csv")} == {"PARENT"}
                names = sorted(path.name for path in folder.iterdir())
                assert names == ["timing-rank0.csv", "timing-rank0.meta.json"]
            except Exception as error:
                trial.count(each, [f"forks {number * each} to {(number + 1) * each}: {error}"])
            else:
                trial.count(each)
    return "two threads of the parent are recording"
