"""What the monitor of a host does at a look: judge the run if rank 0 is here, else pass on what it sees."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timing_logger.engine.live.collector import Collector
from timing_logger.engine.live.digest import Digest
from timing_logger.engine.live.digest_folder import DigestFolder
from timing_logger.engine.live.newest_files import Found, NewestFiles
from timing_logger.engine.live.packed import packed_within
from timing_logger.engine.live.standstill import stands_still
from timing_logger.engine.live.watcher import Watcher
from timing_logger.errors import NoTimingFilesError
from timing_logger.monitor import Settings
from timing_logger.monitoring.elsewhere import Elsewhere
from timing_logger.monitoring.other_monitor import OtherMonitor
from timing_logger.monitoring.telling import Says, Telling
from timing_logger.record import NS_PER_S
from timing_logger.run_info import host_name

MOST_BYTES_PER_S = 200.0
"""How many bytes a digest has at most for each rank and second."""

_LISTED_S = 5.0  # after so long the folder is listed again to see who stands still
_JUDGE = "judge"


class Looking:
    """Looks at a run again and again.

    Args:
        settings: where the run is, and who is told.
        voice: is told what happens.
    """

    def __init__(self, settings: Settings, voice: Says) -> None:
        self._settings, self._voice, self._telling = settings, voice, Telling(settings, voice)
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

    def _found(self) -> list[Found]:
        """List the folder, and note which files are of this host."""
        found = self._files.found()
        self._here = [one.first for one in found if self._is_here(one.sidecar)]
        self._listed_s = time.monotonic()
        return found

    def _look(self, files: list[Found]) -> None:
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
        is_judge = self._claims(_JUDGE, "passes on what that tells, and judges when it has ended")
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
            self._voice.say(said=text)


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
