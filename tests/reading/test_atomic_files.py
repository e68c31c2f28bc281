"""What is written replaces what was there only when it is complete, and never timing files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from timing_logger.errors import LogPathError
from timing_logger.process import interrupts
from timing_logger.reading.atomic_files import draft_of, drafts_of, made_folder


def named(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_and_fail(path: Path) -> None:
    path.write_text("new")
    raise KeyError(path)


def test_a_file_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with draft_of(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert (path.read_text(), named(tmp_path)) == ("new", ["page.html"])


def test_after_a_failure_the_file_is_as_it_was_and_no_draft_is_left(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(KeyError), draft_of(path) as draft:
        write_and_fail(draft)
    assert (path.read_text(), named(tmp_path)) == ("old", ["page.html"])


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("of no number"), "of no number"),
    ],
)
def test_an_error_of_no_file_is_of_the_output(tmp_path: Path, error: OSError, why: str) -> None:
    path = tmp_path / "page.html"
    with pytest.raises(LogPathError) as said, draft_of(path):
        raise error
    assert str(said.value) == f"output: {str(path)!r} cannot be written: {why}."


def test_an_error_of_the_draft_is_of_the_output(tmp_path: Path) -> None:
    with (
        pytest.raises(LogPathError, match=r"page.html' cannot be written: Is a directory\.$"),
        draft_of(tmp_path / "page.html") as draft,
    ):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(draft))


def test_an_error_of_another_file_stays_what_it_is(tmp_path: Path) -> None:
    lost = tmp_path / "timing-rank0.csv"
    with pytest.raises(FileNotFoundError, match=r"timing-rank0\.csv"), draft_of(tmp_path / "page.html"):
        lost.read_bytes()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("folder", "is a folder"),
        ("fifo", "is no regular file"),
        ("dangling", "is no regular file"),
        ("nowhere/page.html", "there is no folder"),
        ("timing-rank3.csv", "is what timing files are called"),
        ("timing-rank3.meta.json", "is what timing files are called"),
    ],
)
def test_what_may_not_be_replaced_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    with pytest.raises(LogPathError, match=why), draft_of(tmp_path / name):
        pytest.fail("was let in")
    assert named(tmp_path) == ["dangling", "fifo", "folder"]


def test_of_several_files_none_is_replaced_if_the_last_fails(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(KeyError), drafts_of(paths) as drafts:
        write_and_fail(drafts[0])
    assert named(tmp_path) == []
    with drafts_of(paths) as drafts:
        for draft in drafts:
            draft.write_text(draft.name)
        assert not any(path.exists() for path in paths)
    assert [path.read_text() for path in paths] == [f".{os.getpid()}.a", f".{os.getpid()}.b"]
    assert named(tmp_path) == ["a", "b"]


def test_ctrl_c_waits_until_all_files_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, ends = [tmp_path / "a", tmp_path / "b"], []
    replace = os.replace

    def interrupted(draft: Path, path: Path) -> None:
        assert interrupts.is_held_back()
        replace(draft, path)

    monkeypatch.setattr(os, "replace", interrupted)
    monkeypatch.setattr(interrupts, "end_process", lambda: ends.append(named(tmp_path)))
    monkeypatch.setattr(interrupts._state, "waits", False)
    with drafts_of(paths) as drafts:
        for draft in drafts:
            draft.touch()
    assert ends == [["a", "b"]]


# -- folders ---------------------------------------------------------------------------------------------


def fail_with(folder: Path, *names: str) -> None:
    assert named(folder) == list(names)
    raise KeyError(folder)


def test_folders_that_were_made_are_removed_after_a_failure_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(KeyError), made_folder(tmp_path / "there" / "a" / "b"):
        fail_with(tmp_path / "there", "a")
    assert (named(tmp_path), named(tmp_path / "there")) == (["there"], [])


def test_a_folder_into_which_somebody_else_has_put_something_is_left(tmp_path: Path) -> None:
    with pytest.raises(KeyError), made_folder(tmp_path / "a" / "b"):
        write_and_fail(tmp_path / "a" / "of another")
    assert named(tmp_path / "a") == ["of another"]


def test_a_folder_that_is_complete_stays_and_one_that_is_there_is_no_error(tmp_path: Path) -> None:
    for _ in range(2):
        with made_folder(tmp_path / "a"):
            pass
    assert named(tmp_path) == ["a"]


def test_a_folder_that_cannot_be_made_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    wanted = rf"output: the folder '{tmp_path}/file/a' cannot be made: Not a directory\.$"
    with pytest.raises(LogPathError, match=wanted), made_folder(tmp_path / "file" / "a"):
        pytest.fail("was let in")
