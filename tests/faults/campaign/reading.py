"""Reads files that were cut anywhere. (P6, P7)"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import warnings
from pathlib import Path

from places import SAMPLE

from campaign.trial import Trial

_COMMANDS = (
    ["summary"], ["summary", "--json"], ["stragglers"], ["stragglers", "--json"],
    ["trace", "-o", "{out}.json"], ["report", "-o", "{out}.html"],
    ["convert", "--to", "parquet", "-o", "{out}.parquet"],
)  # fmt: skip


def sample(folder: Path, ranks: int = 2, n_lines: int = 60) -> Path:
    """Write the first lines of a real run's files, and its sidecars, to ``folder``, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        name = f"timing-rank{rank}"
        lines = (SAMPLE / f"{name}.csv").read_bytes().splitlines(keepends=True)
        (folder / f"{name}.csv").write_bytes(b"".join(lines[:n_lines]))
        shutil.copy(SAMPLE / f"{name}.meta.json", folder)
    return folder


def cuts(trial: Trial) -> str:
    """Cut a file after each of its bytes: whole lines are read as they were, an unfinished one is not."""
    from timing_logger import read_timings

    with trial.new_folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = sample(folder, 1, 40) / "timing-rank0.csv"
        whole, data = read_timings(folder), path.read_bytes()
        header_end = data.index(b"\n") + 1
        for end in range(header_end, len(data) + 1, trial.times(1, 41)):
            with trial.one(f"cut after {end} bytes"):
                path.write_bytes(data[:end])
                found = read_timings(folder)
                n_rows = data.count(b"\n", 0, end) - 1
                assert found["start_counter"].tolist() == whole["start_counter"].tolist()[:n_rows]
                assert found["elapsed_ms"].tolist() == whole["elapsed_ms"].tolist()[:n_rows]
                (about,) = found.attrs["files"]
                assert bool(about["cut"]) == (data[end - 1 : end] != b"\n")
                assert about["bad_lines"] == 0
    return ""


def unchanged(trial: Trial) -> str:
    """Check that commands change no byte of torn and whole files, and give the same answer twice."""
    from timing_logger.cli import main

    for number in range(trial.times(30, 1)):
        with trial.new_folder() as folder:
            path = sample(folder / "logs", 4, 400) / "timing-rank1.csv"
            path.write_bytes(path.read_bytes()[: -trial.chance(number).randrange(1, 2000)])
            before = _hashes(folder / "logs")
            for name, *options in _COMMANDS:
                with trial.one(f"{name}, file {number}"):
                    answers = []
                    for time in ("first", "second"):
                        arguments = [option.format(out=folder / time) for option in options]
                        out, err = io.StringIO(), io.StringIO()
                        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                            assert main([name, str(folder / "logs"), *arguments]) == 0, err.getvalue()
                        answers.append(out.getvalue().replace(str(folder / time), "OUT"))
                    assert answers[0] == answers[1]
                    assert _hashes(folder / "logs") == before
    return ""


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
