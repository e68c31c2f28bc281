"""Import what sources grow by, again and again, until it is stopped or nothing more comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from timing_logger.errors import ConfigurationError, NotImportableError
from timing_logger.importing.growing_file import GrowingFile
from timing_logger.importing.growing_files import GrowingFiles, many_files
from timing_logger.importing.growing_folder import GrowingFolder
from timing_logger.importing.imported import Imported, LeftOut
from timing_logger.importing.lines import Lines
from timing_logger.importing.source_files import AnyPath
from timing_logger.importing.unpacking import CUT_OR_DAMAGED, DamagedError
from timing_logger.importing.until import Until

CUT = "a last line without its end"
"""Why a line is left out that may go on: half a number is a number, too."""

_MOST_PASSES = 3
"""What files grow by while they are read again may be reason to do so once more; the next look does."""


class LinesOfFile(Protocol):
    """Takes the lines of one file, from its beginning on."""

    def take(self, lines: Iterable[str]) -> None:
        """Take the next lines, and append what they say to the timing files.

        Raises:
            NotImportableError: the file is none of this kind.
        """
        ...


class Kind(Protocol):
    """What is followed: it makes rows of lines.

    Attributes:
        left_out: how many records could not be used, by reason.
        not_told: what the source does not tell, by the names of ``sidecar.NOT_TOLD``.
        notes: what else there is to know, a sentence each.
        must_begin_anew: whether the rows that are written are called otherwise by what was read since.
    """

    left_out: LeftOut
    must_begin_anew: bool

    @property
    def not_told(self) -> list[str]:
        """As said above."""
        ...

    @property
    def notes(self) -> list[str]:
        """As said above."""
        ...

    def opened(self, path: Path) -> LinesOfFile:
        """Return what takes the lines of a file."""
        ...

    def begin_anew(self) -> None:
        """Forget the rows that were made: all files are read from their beginnings."""
        ...


class CannotGoOn(Exception):
    """The whole import cannot go on, for the error that is its argument."""


class _Reading(NamedTuple):
    lines: Lines
    taker: LinesOfFile


class Following:
    """An import that goes on.

    Args:
        files: what is followed.
        kind: makes rows of their lines.
        folder: where the rows go.
        tell: is told what becomes of files, a sentence each.
        is_stopped: whether no further block is to be read.
    """

    def __init__(
        self,
        files: GrowingFiles,
        kind: Kind,
        folder: GrowingFolder,
        tell: Callable[[str], None] = lambda said: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._files, self._kind, self._folder = files, kind, folder
        self._tell, self._is_stopped = tell, is_stopped
        self._readings: dict[GrowingFile, _Reading] = {}
        self._is_first = True

    def look(self) -> bool:
        """Import what was added since the last look, and tell whether anything was."""
        grew = self._read_all(self._is_stopped)
        self._settle(lambda: None)
        self._folder.refresh(self._kind.left_out, self._kind.not_told)
        return grew

    def finish(self, *, is_finished: bool) -> None:
        """Import last lines without an end, if the sources are finished; else they are left out."""
        if is_finished:
            self._take_rests()
            self._settle(self._take_rests)
        else:
            for file in list(self._readings):
                self._leave_the_rest(file)

    def close(self) -> None:
        """Close the timing files, and say that they are complete."""
        self._folder.close(self._kind.left_out, self._kind.not_told)

    def _take_rests(self) -> None:
        for file, reading in list(self._readings.items()):
            if file.is_cut:
                self._leave_the_rest(file)
            else:
                self._take(file, reading, reading.lines.rest())

    def _leave_the_rest(self, file: GrowingFile) -> None:
        """Leave out the end of what was read of a file, if it is none yet, and follow the file no more."""
        has_rest = self._readings.pop(file).lines.has_rest
        if file.is_cut or has_rest:
            self._kind.left_out.add(CUT_OR_DAMAGED if file.is_cut else CUT)

    def _settle(self, and_then: Callable[[], None]) -> None:
        """Write all rows anew, if they are called otherwise by what was read since."""
        for _ in range(_MOST_PASSES):
            if self._kind.must_begin_anew:
                self._begin_anew()
                and_then()

    def _begin_anew(self) -> None:
        """Read all files again from their beginnings, also when stopped: nothing of them is written yet."""
        self._kind.begin_anew()
        self._folder.clear()
        self._readings.clear()
        for file in self._files.look():
            file.begin_anew()
        self._read_all(lambda: False)

    def _read_all(self, is_stopped: Callable[[], bool]) -> bool:
        grew = False
        files = self._files.look()
        for file in self._readings.keys() - set(files):  # it has no name any more, and was finished
            if file.is_cut:
                self._leave_the_rest(file)
                continue
            reading = self._readings.pop(file)
            with suppress(NotImportableError):
                reading.taker.take(reading.lines.rest())
        for file in files:
            if is_stopped():
                break
            grew = self._read(file, is_stopped) or grew
        self._is_first = self._is_first and not grew
        return grew

    def _read(self, file: GrowingFile, is_stopped: Callable[[], bool]) -> bool:
        if not file.has_changed():
            return False
        try:
            return self._read_on(file, is_stopped)
        except DamagedError:
            self._kind.left_out.add(CUT_OR_DAMAGED)
            if file in self._readings:  # the line that it breaks off in is no line
                self._readings[file] = self._readings[file]._replace(lines=self._lines_of(file))
        except ConfigurationError as error:
            if self._is_first:
                raise
            self._files.leave_out(file, f"is left out: {str(error).removeprefix('paths: ')}")
        return True

    def _read_on(self, file: GrowingFile, is_stopped: Callable[[], bool]) -> bool:
        before = file.replaces
        standing = file.standing()
        if standing == "unclear":
            return False
        if standing == "is another" and file in self._readings:
            self._tell(f"{file.path}: was emptied or written anew, and is read from its beginning.")
            self._drop(file)
        elif standing == "repeats" and before in self._readings:
            self._readings[file] = self._readings.pop(before)
            self._files.leave_out(before, "")
        grew = False
        for block in file.blocks():
            reading = self._readings.get(file) or self._begin(file)
            if not self._take(file, reading, reading.lines.of(block)):
                return True
            grew = True
            self._folder.refresh(self._kind.left_out, self._kind.not_told)
            if is_stopped():
                break
        return grew

    def _drop(self, file: GrowingFile) -> None:
        """Forget how far a file was read; the line that it ended in is lost."""
        if self._readings.pop(file).lines.has_rest:
            self._kind.left_out.add(CUT)

    def _begin(self, file: GrowingFile) -> _Reading:
        self._readings[file] = _Reading(self._lines_of(file), self._kind.opened(file.path))
        return self._readings[file]

    def _lines_of(self, file: GrowingFile) -> Lines:
        return Lines(str(file.path), self._kind.left_out)

    def _take(self, file: GrowingFile, reading: _Reading, lines: Iterator[str]) -> bool:
        """Take lines; a file that is of another kind is refused at the first look, and later left out."""
        try:
            reading.taker.take(lines)
        except NotImportableError as error:
            if self._is_first:
                raise
            self._files.leave_out(file, f"is left out: {str(error).removeprefix('paths: ')}")
            del self._readings[file]
            return False
        return True


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
        TooLargeError: there are more files than may be open at a time.
        ConfigurationError: nothing ends it.
    """
    until = until.checked()
    folder = GrowingFolder(output, sources.kind)
    kind = make(folder)
    files = GrowingFiles(sources.paths, sources.endings, folder.path, tell)
    one = Following(files, kind, folder, tell, lambda: until.is_now)
    try:
        with many_files():
            one.finish(is_finished=_until_its_end(one, until))
    except CannotGoOn as error:
        raise error.args[0] from None
    finally:
        one.close()
        n_files = len(files)
        files.close()
    if not folder.ranks:
        raise NotImportableError(
            f"paths: no record of {sources.kind} could be read from {n_files} files"
            f"{kind.left_out.briefly}. Nothing was made."
        )
    notes = [*kind.notes, *folder.notes]
    return Imported(Path(output), folder.ranks, folder.n_rows, dict(kind.left_out), kind.not_told, notes)


def _until_its_end(one: Following, until: Until) -> bool:
    """Look again and again; return whether the sources came to their end, as far as that can be known."""
    grew_s = time.monotonic()
    while not until.is_now:
        if one.look():
            grew_s = time.monotonic()
        elif until.idle_s is not None and time.monotonic() - grew_s >= until.idle_s:
            return True
        until.wait()
    return False
