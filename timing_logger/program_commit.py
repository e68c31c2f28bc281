"""The commit that the program was in, where it runs out of a git repository: read from its files, once."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_FOLDERS_UP = 32
_MOST_BYTES = 2**20  # of packed-refs, which has a line for each branch and tag


def program_commit() -> str:
    """Return the commit that is checked out where the program is; "" if it is in no repository, or unknown.

    Whether files were changed since is not known: that would take git itself, and long. No process is
    started.
    """
    try:
        git = _git_folder(_folder_of_program())
        return _commit_in(git) if git else ""
    except (OSError, ValueError):
        return ""


def _folder_of_program() -> Path:
    """Return the folder of the program's file; the current one where it has none, as in a notebook."""
    named = Path(sys.argv[0]) if getattr(sys, "argv", None) and sys.argv[0] else None
    return named.resolve().parent if named and named.is_file() else Path.cwd()


def _git_folder(folder: Path) -> Path | None:
    """Return the folder ``.git`` of the repository that a folder is in; None if it is in none."""
    for above in [folder, *folder.parents][:_MOST_FOLDERS_UP]:
        git = above / ".git"
        if git.is_dir():
            return git
        if git.is_file():  # of a work tree or a submodule, and names the folder
            return (above / _read(git).removeprefix("gitdir:").strip()).resolve()
    return None


def _commit_in(git: Path) -> str:
    head = _read(git / "HEAD")
    if not head.startswith("ref:"):
        return _checked(head)
    name = head.removeprefix("ref:").strip()
    if not name.startswith("refs/") or ".." in name.split("/"):
        return ""
    common = git / "commondir"
    folders = [git, (git / _read(common)).resolve()] if common.is_file() else [git]
    for folder in folders:
        if (folder / name).is_file():
            return _checked(_read(folder / name))
    return next((found for folder in folders if (found := _packed(folder / "packed-refs", name))), "")


def _packed(path: Path, name: str) -> str:
    lines = _read(path).splitlines() if path.is_file() else []
    return next((_checked(line.split(" ")[0]) for line in lines if line.endswith(f" {name}")), "")


def _read(path: Path) -> str:
    """Read a small file; a FIFO, which would wait, is none."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace").strip()


def _checked(text: str) -> str:
    return text if _COMMIT.fullmatch(text) else ""
