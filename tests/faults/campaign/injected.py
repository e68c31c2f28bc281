"""Writes of a timing file that strace makes fail, or holds back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from campaign.trial import Trial, Untried

ERRORS = ("ENOSPC", "EDQUOT", "EIO", "EFBIG", "EROFS")


def windows_of_errors(trial: Trial, times: int, first_before: int, most: int) -> Iterator[tuple[str, str]]:
    """Yield each error so many times, with the writes that it strikes, numbered as strace does.

    Args:
        trial: the campaign under way.
        times: how often each error is yielded.
        first_before: below which number the first write is that it strikes.
        most: how many writes it strikes at most; once in four times all from the first on.
    """
    for error in ERRORS:
        for number in range(times):
            chance = trial.chance(number)
            first = chance.randrange(2, first_before)
            to_the_end = chance.random() < 0.25
            yield error, f"{first}+" if to_the_end else f"{first}..{first + chance.randrange(most)}"


def in_writes(file: Path, what: str, calls: str = "write") -> list[str]:
    """Return a command prefix that injects ``what`` into the system calls that write ``file``.

    Raises:
        Untried: there is no strace.
    """
    strace = shutil.which("strace")
    if strace is None:
        raise Untried("no strace here, which holds back a write or makes it fail")
    return [strace, "-f", "-qq", "-o", str(file.with_name("strace.txt")), "-P", str(file),
            "-e", f"trace={calls}", "-e", f"inject={calls}:{what}"]  # fmt: skip
