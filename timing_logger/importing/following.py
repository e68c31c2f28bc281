"""Import what sources grow by, again and again, until it is stopped or nothing more comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from timing_logger.errors import ConfigurationError, NotImportableError
from timing_logger.importing.growing_files import (
    EndedError,
    GrowingFile,
    GrowingFiles,
    GrowingFolder,
    many_files,
)
from timing_logger.importing.imported import Imported
from timing_logger.importing.log_folder import refuse
from timing_logger.importing.source_files import AnyPath, Lines
from timing_logger.reading.atomic_files import made_folder

INTERVAL_S = 1.0
"""From one look at the sources to the next."""

_ASKED_S = 0.1


class Until(NamedTuple):
    """When an import of what grows ends.

    Attributes:
        idle_s: after so many seconds in which nothing was added; None for never.
        is_stopped: tells, ten times a second, whether to end at once; None if nobody does. Such as
            ``threading.Event().is_set``.
        interval_s: from one look at the sources to the next, in s.
    """

    idle_s: float | None = None
    is_stopped: Callable[[], bool] | None = None
    interval_s: float = INTERVAL_S

    def checked(self) -> Until:
        """Return it, if its values are possible.

        Raises:
            ConfigurationError: they are not; or nothing ever ends the import.
        """
        for name, value in (("idle_s", self.idle_s), ("interval_s", self.interval_s)):
            if value is not None and not value > 0:
                raise ConfigurationError(f"until: {name}={value!r} must be more than 0.")
        if self.idle_s is None and self.is_stopped is None:
            raise ConfigurationError(
                "until: nothing ends this import. Give idle_s, in seconds, or is_stopped, a function."
            )
        return self

    @property
    def is_now(self) -> bool:
        """Whether it is to end at once."""
        return self.is_stopped is not None and self.is_stopped()

    def wait(self) -> None:
        """Wait for the next look, or until it is to end."""
        next_s = time.monotonic() + self.interval_s
        while (left_s := next_s - time.monotonic()) > 0 and not self.is_now:
            time.sleep(min(left_s, _ASKED_S))


CUT = "a last line without its end"
"""Why a line is left out that may go on: half a number is a number, too."""

_MOST_PASSES = 3
"""What files grow by while they are read again may be reason to do so once more; the next look does."""

_AGAIN = "Import again, into another folder, to have all rows."


class Kind(Protocol):
    """What is followed: it makes rows of lines.

    Attributes:
        notes: what else there is to know, a sentence each.
        must_begin_anew: whether the rows that are written are called otherwise by what was read since.
    """

    must_begin_anew: bool

    @property
    def notes(self) -> list[str]:
        """As said above."""
        ...

    def take(self, path: Path, lines: Iterable[str]) -> None:
        """Take the next lines of a file, and append what they say to the timing files.

        It raises NotImportableError if the file is none of this kind.
        """
        ...

    def begin_anew(self) -> None:
        """Forget the rows that were made: all files are read from their beginnings."""
        ...


class CannotGoOn(Exception):
    """The whole import cannot go on, for the error that is its argument."""


class Sources(NamedTuple):
    """What is imported.

    Attributes:
        paths: files, folders or patterns.
        endings: how the names end of those that count in a folder.
        kind: the kind of the import.
    """

    paths: AnyPath | Sequence[AnyPath]
    endings: Sequence[str]
    kind: str


def follow(
    sources: Sources,
    output: AnyPath,
    make: Callable[[GrowingFolder], Kind],
    until: Until,
    tell: Callable[[str], None],
) -> Imported:
    """Import what sources hold and grow by, until that is to end.

    Args:
        sources: what is imported.
        output: the folder to make; it may exist if it is empty.
        make: returns what makes rows, and appends them to the folder.
        until: when it ends.
        tell: is told what becomes of files, a sentence each.

    Raises:
        NotImportableError: what is there at first is none of this kind, or no record could be used.
        LogPathError: the output exists already and is not empty, or cannot be made.
        TooLargeError: there are more ranks than files may be open at a time.
        ConfigurationError: nothing ends it.
    """
    until = until.checked()
    path = Path(output).absolute()
    refuse(path)
    with made_folder(path):  # without a row it is removed again
        folder = GrowingFolder(path, sources.kind)
        kind = make(folder)
        files = GrowingFiles(sources.paths, sources.endings, path)
        following = _Following(files, kind, folder, until, tell)
        try:
            with many_files():
                following.run()
        except CannotGoOn as error:
            raise error.args[0] from None
        finally:
            folder.close()
        if not folder.ranks:
            raise NotImportableError(
                f"paths: no record of {sources.kind} could be read from {len(files)} files"
                f"{folder.left_out.briefly}. Nothing was made."
            )
    notes = [*kind.notes, *folder.notes, *following.notes]
    return Imported(Path(output), folder.ranks, folder.n_rows, dict(folder.left_out), folder.not_told, notes)


class _Following:
    def __init__(
        self,
        files: GrowingFiles,
        kind: Kind,
        folder: GrowingFolder,
        until: Until,
        tell: Callable[[str], None],
    ) -> None:
        self._files, self._kind, self._folder = files, kind, folder
        self._until, self._tell = until, tell
        self._lines: dict[GrowingFile, Lines] = {}
        self._ended: list[Path] = []
        self._is_first = True

    @property
    def notes(self) -> list[str]:
        """What became of files: a sentence, or none."""
        if not self._ended:
            return []
        return [f"Files not followed to their end: {len(self._ended):,}, such as {self._ended[0]}. {_AGAIN}"]

    def run(self) -> None:
        """Look again and again; then import last lines without an end, unless it was stopped within some."""
        grew_s = time.monotonic()
        while not self._until.is_now:
            if self._look():
                grew_s = time.monotonic()
            elif self._until.idle_s is not None and time.monotonic() - grew_s >= self._until.idle_s:
                self._take_rests()
                self._settle(self._take_rests)
                return
            self._until.wait()
        for file in list(self._lines):
            self._leave_the_rest(file)

    def _look(self) -> bool:
        """Import what was added since the last look, and tell whether anything was."""
        grew = self._read_all(lambda: self._until.is_now)
        self._settle(lambda: None)
        self._folder.refresh()
        return grew

    def _take_rests(self) -> None:
        for file, lines in list(self._lines.items()):
            with self._ended_where_it_must(file):
                self._kind.take(file.path, lines.rest())

    def _leave_the_rest(self, file: GrowingFile) -> None:
        if file in self._lines and self._lines.pop(file).has_rest:
            self._folder.left_out.add(CUT)

    def _settle(self, and_then: Callable[[], None]) -> None:
        """Write all rows anew, if they are called otherwise by what was read since."""
        for _ in range(_MOST_PASSES):
            if self._kind.must_begin_anew:
                self._begin_anew()
                and_then()

    def _begin_anew(self) -> None:
        """Read all files again from their beginnings, also when stopped: nothing of them is written yet."""
        if self._ended:
            said = f"{str(self._ended[0])!r} cannot be read again, and what was read since changes names of"
            raise CannotGoOn(NotImportableError(f"paths: {said} ranks or groups. {_AGAIN}"))
        self._kind.begin_anew()
        self._folder.clear()
        self._lines.clear()
        for file in self._files.look():
            file.begin_anew()
        self._read_all(lambda: False)

    def _read_all(self, is_stopped: Callable[[], bool]) -> bool:
        grew = False
        for file in self._files.look():
            if is_stopped():
                break
            with self._ended_where_it_must(file):
                for block in file.blocks():
                    grew = True
                    if file not in self._lines:
                        self._lines[file] = Lines(str(file.path), self._folder.left_out)
                    self._kind.take(file.path, self._lines[file].of(block))
                    self._folder.refresh()
                    if is_stopped():
                        break
        self._is_first = self._is_first and not grew
        return grew

    @contextmanager
    def _ended_where_it_must(self, file: GrowingFile) -> Iterator[None]:
        """Follow a file no longer that cannot be read on; refuse one of another kind at the first look."""
        try:
            yield
        except EndedError as why:
            self._tell(f"{file.path}: {why}, and is followed no longer. {_AGAIN}")
            self._ended.append(file.path)
            self._leave_the_rest(file)
            file.is_over = True
        except NotImportableError as error:
            if self._is_first:
                raise
            self._tell(f"{file.path}: is left out: {str(error).removeprefix('paths: ')}")
            self._lines.pop(file, None)
            file.is_over = True
