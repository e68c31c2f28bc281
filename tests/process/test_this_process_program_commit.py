"""The commit that a program is in is that of its repository, as git itself says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import PROCESS_S

from timing_logger.process.this_process import program_commit

NAMED = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, **NAMED, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    monkeypatch.setattr(sys, "argv", [str(folder / "src" / "train.py")])
    return folder


def test_it_is_the_one_that_is_checked_out(repository: Path) -> None:
    assert program_commit() == git(repository, "rev-parse", "HEAD")


def test_it_is_found_without_a_branch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    assert program_commit() == git(repository, "rev-parse", "HEAD")


def test_it_is_found_where_branches_are_packed(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    assert program_commit() == git(repository, "rev-parse", "HEAD")


def test_it_is_found_in_another_work_tree(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "second")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "other" / "src" / "train.py")])
    assert (
        program_commit()
        == git(tmp_path / "other", "rev-parse", "HEAD")
        != git(repository, "rev-parse", "HEAD")
    )


def test_a_program_without_a_file_is_in_the_current_folder(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.chdir(repository / "src")
    assert program_commit() == git(repository, "rev-parse", "HEAD")


def test_no_file_outside_of_the_repository_is_read(repository: Path) -> None:
    (repository / "secret").write_text("a" * 40)
    for name in ("../secret", "refs/../../secret", f"{repository}/secret"):
        (repository / ".git" / "HEAD").write_text(f"ref: {name}")
        assert program_commit() == ""


@pytest.mark.parametrize(
    "head", ["", "ref: refs/heads/none", "ref: refs/../../secret", "x" * 40, "ref: /etc/passwd", "\xff\0"]
)
def test_of_a_damaged_repository_nothing_is_known(repository: Path, head: str) -> None:
    (repository / ".git" / "HEAD").write_text(head)
    assert program_commit() == ""


def test_a_fifo_in_its_place_is_not_waited_for(repository: Path) -> None:
    (repository / ".git" / "HEAD").unlink()
    os.mkfifo(repository / ".git" / "HEAD")
    assert program_commit() == ""


def test_outside_of_a_repository_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    assert program_commit() == ""


# -- repositories made by hand -----------------------------------------------------------------------------

FIRST, SECOND = "a" * 40, "b" * 40


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, in which the program is, whose repository has the branch main."""
    git_folder = tmp_path / ".git"
    (git_folder / "refs" / "heads").mkdir(parents=True)
    (git_folder / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    return tmp_path


@pytest.mark.parametrize(
    ("commit", "known"), [(FIRST, True), ("a" * 64, True), ("a" * 39, False), ("A" * 40, False), ("", False)]
)
def test_what_a_branch_names_is_a_commit_or_nothing_is_known(made: Path, commit: str, known: bool) -> None:
    (made / ".git" / "refs" / "heads" / "main").write_text(f"{commit}\n")
    assert program_commit() == (commit if known else "")


def test_another_packed_name_that_ends_alike_is_not_taken_for_the_branch(made: Path) -> None:
    packed = f"# pack-refs\n{FIRST} remotes/oldrefs/heads/main\n{SECOND} refs/heads/main\n"
    (made / ".git" / "packed-refs").write_text(packed)
    assert program_commit() == SECOND


def test_a_work_tree_finds_the_branches_that_are_packed_in_its_repository(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made / ".git" / "packed-refs").write_text(f"{FIRST} refs/heads/other\n")
    of_tree = made / ".git" / "worktrees" / "tree"
    of_tree.mkdir(parents=True)
    (of_tree / "HEAD").write_text("ref: refs/heads/other\n")
    (of_tree / "commondir").write_text("../..\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: ../.git/worktrees/tree\n")
    (tree / "train.py").write_text("")
    monkeypatch.setattr(sys, "argv", [str(tree / "train.py")])
    assert program_commit() == FIRST


def test_a_branch_whose_name_no_file_can_have_is_not_known(made: Path) -> None:
    (made / ".git" / "HEAD").write_text("ref: refs/heads/a\0b")
    assert program_commit() == ""


@pytest.mark.parametrize("argv", [None, [], [""], ["/none/here/train.py"]])
def test_a_program_whose_file_is_not_known_is_in_the_current_folder(
    made: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str] | None
) -> None:
    (made / ".git" / "refs" / "heads" / "main").write_text(FIRST)
    if argv is None:
        monkeypatch.delattr(sys, "argv")
    else:
        monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.chdir(made)
    assert program_commit() == FIRST
