"""What the monitor of a host does at a look: judge the run if rank 0 is here, else pass on what it sees."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from timing_logger.engine.changes import Change, Changes
from timing_logger.errors import NoTimingFilesError
from timing_logger.live.collector import Collector
from timing_logger.live.delivery import FILE_NAME, EventDelivery, VerdictsFile
from timing_logger.live.destinations import from_json, started
from timing_logger.live.digest import Digest
from timing_logger.live.digest_folder import DigestFolder, Elsewhere
from timing_logger.live.events import KEYS, Event, end_of, event_of, found_in, run_of
from timing_logger.live.newest_files import FoundFile, NewestFiles
from timing_logger.live.packed import packed_within
from timing_logger.live.standstill import stands_still
from timing_logger.live.watcher import Watcher
from timing_logger.live.webhook import Webhook
from timing_logger.process.monitor import MonitorSettings
from timing_logger.process.shared_files import opened_owned, owner_of
from timing_logger.process.this_process import host_name
from timing_logger.schema.record import NS_PER_S

if TYPE_CHECKING:
    from timing_logger.live.watcher import Snapshot

MOST_BYTES_PER_S = 200.0
"""How many bytes a digest has at most for each rank and second."""

Says: TypeAlias = Callable[..., None]

_LISTED_S = 5.0  # after so long the folder is listed again to see who stands still


class Looking:
    """Looks at a run again and again.

    Args:
        settings: where the run is, and who is told.
        say: is told what happens, in objects of these keys and values, from several threads.
    """

    def __init__(self, settings: MonitorSettings, say: Says) -> None:
        self._settings, self._say, self._telling = settings, say, Telling(settings, say)
        self._folder, self._host = Path(settings.log_dir), host_name()
        self._digests = DigestFolder(self._folder)
        self._other, self._other_judges, self._run_id = OtherMonitor(self._folder), False, ""
        self._elsewhere = Elsewhere()
        self._files = NewestFiles(self._folder, self._host)
        self._watcher = Watcher(
            self._folder, settings.window_s, self._is_of_run, self._heard_elsewhere, self._files,
        )  # fmt: skip
        self._collector = Collector(self._folder, self._host, self._is_here, self._files)
        self._here: list[Path] = []
        self._listed_s = -math.inf
        self._still: frozenset[Path] = frozenset()
        self._said: set[str] = set()

    def look(self) -> None:
        """Look once. What goes wrong is said once, and tried again with the next look."""
        try:
            self._look([one for one in self._found() if self._is_of_run(one.sidecar)])
        except NoTimingFilesError:  # not yet, or the folder is emptied
            return
        except Exception as error:
            self._say_once(f"the run cannot be judged now: {_in_a_line(error)}")

    def stands_still(self) -> bool:
        """Tell whether other processes of this host stand still than at the last call, and some do."""
        if time.monotonic() - self._listed_s > _LISTED_S:
            try:
                self._found()
            except (OSError, NoTimingFilesError):
                return False
        said = ((path, self._files.sidecars.now(path)) for path in self._here)
        before, self._still = self._still, frozenset(path for path, sidecar in said if stands_still(sidecar))
        return bool(self._still) and self._still != before

    def hear_other(self) -> None:
        """Pass on what another monitor told, if it judges this run in the place of this one."""
        if self._other_judges:
            for event in self._other.told(self._run_id):
                self._telling.hear(event)

    def close(self) -> None:
        """Have the last of what was told arrive, and let another monitor take over."""
        self._telling.close()
        self._digests.let_go()

    def _found(self) -> list[FoundFile]:
        """List the folder, and note which files are of this host."""
        found = self._files.found()
        self._here = [one.first for one in found if self._is_here(one.sidecar)]
        self._listed_s = time.monotonic()
        return found

    def _look(self, files: list[FoundFile]) -> None:
        if not files:
            return
        self._elsewhere.pid = next(
            (one.sidecar.get("pid") for one in files if self._is_here(one.sidecar)), None
        )
        if files[0].name.rank == 0 and self._is_here(files[0].sidecar):
            self._run_id = files[0].sidecar.get("run_id") or ""
            self._judge()
        elif self._claims(self._host, "waits for its end"):
            self._pass_on(self._collector.digest(), is_shared=files[0].name.rank == 0)

    def _judge(self) -> None:
        """Judge the run, or leave that to another monitor; what that told last is heard before."""
        is_judge = self._claims("judge", "passes on what that tells, and judges when it has ended")
        self.hear_other()
        self._other_judges = not is_judge
        if is_judge:
            self._telling.tell(self._watcher.snapshot())

    def _pass_on(self, digest: Digest, *, is_shared: bool) -> None:
        """Hand a digest to the monitor that judges: through the folder, if the files of rank 0 are there."""
        most_bytes = int(MOST_BYTES_PER_S * self._settings.every_s * len(digest.processes))
        data = packed_within(digest, most_bytes)
        try:
            if is_shared:
                self._digests.write(self._host, digest.number, data)
            elif digest.processes:
                self._elsewhere.write(digest.number, data)
        except Exception as error:
            self._say_once(f"what {self._host} sees cannot be passed on: {_in_a_line(error)}")

    def _heard_elsewhere(self) -> Iterator[Digest]:
        try:
            yield from self._elsewhere.read()
        except Exception as error:
            self._say_once(f"ranks of other hosts cannot be seen: {_in_a_line(error)}")

    def _claims(self, what: str, otherwise: str) -> bool:
        if self._digests.claim(what):
            return True
        self._say_once(f"another monitor of this run is at work on this host; this one {otherwise}.")
        return False

    def _is_of_run(self, sidecar: dict[str, Any]) -> bool:
        return bool((sidecar.get("started_unix_ns") or 0) >= self._settings.since_unix_s * NS_PER_S)

    def _is_here(self, sidecar: dict[str, Any]) -> bool:
        return self._is_of_run(sidecar) and sidecar.get("host") == self._host

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(said=text)


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


# -- what another monitor of the same run tells, as it stands in the file of verdicts --------------------


_MOST_BYTES = 2**20  # of events, which are few, at one time
_ALWAYS = frozenset(key.name for key in KEYS if key.always)
_TEXTS = ("event", "change", "at", "run_id", "verdict", "operation", "owner", "text")


class OtherMonitor:
    """Follows the file of verdicts, from its end on.

    Args:
        folder: the folder of the timing files.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._inode, self._offset = 0, 0
        with suppress(OSError):
            about = os.lstat(self._path)
            self._inode, self._offset = about.st_ino, about.st_size

    def told(self, run_id: str) -> list[Event]:
        """Return the events that were added since the last call.

        Args:
            run_id: the run that they are to be of; "" if it is not known.
        """
        events = [event for line in self._added().splitlines() if (event := _event(line)) is not None]
        return [event for event in events if not run_id or event["run_id"] in ("", run_id)]

    def _added(self) -> bytes:
        """Read the whole lines that were added: what is torn may still become whole."""
        try:
            with opened_owned(self._path, owner_of(self._path)) as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._inode or about.st_size < self._offset:  # somebody moved it away
                    self._inode, self._offset = about.st_ino, 0
                file.seek(self._offset)
                data = file.read(_MOST_BYTES)
        except OSError:
            return b""
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole


def _event(line: bytes) -> Event | None:
    """Return the event in a line; None if it has not what an event always has, as far as that is used."""
    try:
        content = json.loads(line)
    except ValueError:
        return None
    is_event = isinstance(content, dict) and content.keys() >= _ALWAYS and isinstance(content["ranks"], list)
    return content if is_event and all(isinstance(content[name], str) for name in _TEXTS) else None


# -- who is told what changes in a run, and where its figures are shown ----------------------------------


_FILE_S = 3.0  # that the end waits for the file; for webhooks it does longer


class Telling:
    """Tells what changes from one snapshot to the next.

    Args:
        settings: who is told, and where figures are shown.
        say: is told each event, and what goes wrong.
    """

    def __init__(self, settings: MonitorSettings, say: Says) -> None:
        self._say = say
        self._changes = Changes()
        self._heard: Event | None = None
        webhooks = [Webhook.from_json(stated) for stated in settings.webhooks]
        self._file = EventDelivery([VerdictsFile(Path(settings.log_dir))], self._goes_wrong)
        self._webhooks = EventDelivery(webhooks, self._goes_wrong)
        self._exporters = [started(from_json(stated), self._goes_wrong) for stated in settings.show_in]

    def tell(self, snapshot: Snapshot) -> None:
        """Tell what a further snapshot changes. It returns at once."""
        now_s = time.time()
        change = self._changes.after(snapshot.verdict, now_s)
        event = self._event(change, snapshot, now_s)
        if event is not None:
            self._file.deliver(event)
            self._pass_on(event)
        for exporter in self._exporters:
            exporter.show(snapshot, change)

    def hear(self, event: Event) -> None:
        """Pass on an event that another monitor told. What stands when that ends is not told again."""
        self._heard = event if event["change"] != "ends" else None
        self._changes = Changes(found_in(event) if self._heard else None)
        self._pass_on(event)

    def _event(self, change: Change | None, snapshot: Snapshot, now_s: float) -> Event | None:
        heard = self._heard
        if change is not None or not self._changes.something_stands:
            self._heard = None
        if change is not None:
            return event_of(change, run_of(snapshot.files, os.environ))
        return end_of(heard, now_s) if heard and not self._heard else None

    def _pass_on(self, event: Event) -> None:
        self._say(event=event)
        self._webhooks.deliver(event)

    def close(self) -> None:
        """Have the last of it arrive, as far as that takes a few seconds, and say what did not."""
        self._file.close(_FILE_S)
        self._webhooks.close()
        for exporter in self._exporters:
            exporter.close()

    def _goes_wrong(self, text: str) -> None:
        self._say(said=text)
