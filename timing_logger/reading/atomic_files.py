"""Write files atomically: beside their place, and moved into it when complete."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from timing_logger.errors import LogPathError
from timing_logger.process.interrupts import held_back, undone_by
from timing_logger.process.shared_files import make_folder, remove, remove_folder, rename
from timing_logger.schema.timing_files import TimingFile


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which replaces ``path`` at the end of the block.

    If the block raises, the draft is removed, and ``path`` stays as it was.

    Raises:
        LogPathError: ``path`` is a folder, a device or the like, or has the name of a timing file or its
            sidecar, which may not be replaced; or it cannot be written.
    """
    _refuse(path)
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    with undone_by(partial(remove, draft)):
        try:
            yield draft
            rename(draft, path)
        except OSError as error:
            if error.filename in (None, str(draft)):  # else the error is of a file that was read meanwhile
                reason = error.strerror or error
                raise LogPathError(f"output: {str(path)!r} cannot be written: {reason}.") from error
            raise
        finally:
            remove(draft)


@contextmanager
def drafts_of(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield paths to write several files to, which replace ``paths`` only when all are complete.

    Raises:
        LogPathError: as for :func:`draft_of`.
    """
    with ExitStack() as drafts:
        yield [drafts.enter_context(draft_of(path)) for path in paths]
        with held_back():  # else Ctrl-C could leave some of them
            drafts.close()


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and those above it that are not there; if the block raises, they are removed again.

    Raises:
        LogPathError: it cannot be made.
    """
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    with undone_by(partial(_remove_empty, made)):
        try:
            make_folder(folder)
        except OSError as error:
            reason = error.strerror
            raise LogPathError(f"output: the folder {str(folder)!r} cannot be made: {reason}.") from error
        try:
            yield
        except BaseException:
            _remove_empty(made)
            raise


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders, the innermost first, unless somebody else has put something there."""
    for folder in folders:
        with suppress(OSError):
            remove_folder(folder)


def _refuse(path: Path) -> None:
    if path.is_dir():
        raise LogPathError(f"output: {str(path)!r} is a folder. Name a file in it.")
    if os.path.lexists(path) and not path.is_file():
        raise LogPathError(f"output: {str(path)!r} is no regular file, and would be replaced. Name another.")
    if not path.parent.is_dir():
        raise LogPathError(f"output: there is no folder {str(path.parent)!r} to write {path.name!r} to.")
    if TimingFile.parse(path.name) or TimingFile.parse(path.name.replace(".meta.json", ".csv")):
        raise LogPathError(
            f"output: {path.name!r} is what timing files are called, or their sidecars, and no other file "
            "may take their place. Name another."
        )
