"""Import dumps of NCCL Inspector while it writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from timing_logger.errors import NotImportableError
from timing_logger.importing.following import CannotGoOn, Sources, Take, follow
from timing_logger.importing.growing_folder import GrowingFolder
from timing_logger.importing.imported import Imported, LeftOut
from timing_logger.importing.inspector import ENDINGS, OF_SEVERAL, RowsOfRun
from timing_logger.importing.inspector_facts import Facts, Naming
from timing_logger.importing.inspector_records import Operation, Process, Records
from timing_logger.importing.source_files import AnyPath
from timing_logger.importing.until import Until
from timing_logger.schema.record import RawRecord
from timing_logger.schema.sidecar import in_order_of_not_told


def follow_inspector(
    paths: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    until: Until,
    tell: Callable[[str], None] = lambda said: None,
) -> Imported:
    """Make timing files from dumps of NCCL Inspector as :func:`import_inspector` does, while these grow.

    The same rows come of it as of one import of the complete files. What is learnt late may change how ranks
    and groups are called: a larger communicator, or a second kind of collectives in one. All files are then
    read again from their beginnings, and the timing files are written anew. A file that is renamed, replaced
    or cut is followed no longer, and ``tell`` is told.

    Args:
        paths: files, folders or patterns, of which nothing has to be there yet.
        output: the folder to make; it may exist if it is empty.
        until: when it ends.
        tell: is told what becomes of files, a sentence each.

    Raises:
        NotImportableError: no record could be used, two processes are one rank, or a file cannot be read
            again.
        LogPathError: the output exists already and is not empty, or cannot be made.
        TooLargeError: there are more ranks than files may be open at a time.
        ConfigurationError: nothing ends it.
    """
    return follow(Sources(paths, ENDINGS, "inspector"), output, _Dumps, until, tell)


class _Dumps:
    """Makes rows of the lines of all dumps, once it is known how ranks and groups are called.

    Args:
        folder: where the rows go.
    """

    def __init__(self, folder: GrowingFolder) -> None:
        self.left_out = LeftOut()
        self.must_begin_anew = False
        self._folder = folder
        self._records = Records(self.left_out)
        self._facts = Facts(self._records.communicators)
        self._naming: Naming | None = None
        self._rows: RowsOfRun | None = None
        self._n_known = 0

    @property
    def not_told(self) -> list[str]:
        """What dumps do not tell, as far as these are known."""
        return in_order_of_not_told(self._naming.not_told if self._naming else ())

    @property
    def notes(self) -> list[str]:
        """What else there is to know, a sentence each."""
        return self._rows.notes if self._rows else []

    def opened(self, path: Path) -> Take:
        """Return what takes the lines of a file."""
        return partial(self._take, path)

    def begin_anew(self) -> None:
        """Forget the rows that were made, and call ranks and groups by all that is known."""
        self.left_out.clear()
        self._name_anew()
        self.must_begin_anew = False

    def _take(self, source: Path, lines: Iterable[str]) -> None:
        """Append the rows of operations, unless ranks or groups have other names by what they tell."""
        found = [record for line in lines if (record := self._records.of(line)) is not None]
        for process, one in found:
            self._facts.note(process, one)
        if self._facts.changes != self._n_known and not self.must_begin_anew:
            before = self._naming
            naming = self._known()
            self.must_begin_anew = before is None or not before.holds_for(naming)
            if not self.must_begin_anew and self._rows is not None:
                self._naming, self._n_known = naming, self._facts.changes
                self._rows.go_on_with(naming)
        if not self.must_begin_anew:
            self._append(found, source)

    def _name_anew(self) -> None:
        self._naming, self._n_known = self._known(), self._facts.changes
        self._rows = RowsOfRun(self._naming)

    def _known(self) -> Naming:
        try:
            return self._facts.naming()
        except NotImportableError as error:
            raise CannotGoOn(error) from error

    def _append(self, found: Sequence[tuple[Process, Operation]], source: Path) -> None:
        if self._naming is None or self._rows is None:
            return
        rows: dict[tuple[Process, int], list[RawRecord]] = defaultdict(list)
        for process, one in found:
            rank = self._naming.rank_of(process, one)
            if rank is None:
                self.left_out.add(OF_SEVERAL)
            else:
                rows[process, rank].append(self._rows.of(rank, one))
        for (process, rank), its in rows.items():
            self._folder.append(self._rows.process(process, rank), its, source)
