"""Tell what changes in a run to all who are to know it, and show its figures where people look."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from timing_logger.engine.changes import Change, Changes
from timing_logger.monitor import Settings
from timing_logger.monitoring.delivery import Delivery
from timing_logger.monitoring.destinations import from_json, started
from timing_logger.monitoring.events import Event, end_of, event_of, found_in, is_standing
from timing_logger.monitoring.receivers import VerdictsFile
from timing_logger.monitoring.watched_run import run_of
from timing_logger.monitoring.webhook import Webhook

if TYPE_CHECKING:
    from timing_logger.engine.live import Snapshot

_FILE_S = 3.0  # that the end waits for the file; for webhooks it does longer


class Says(Protocol):
    """Whoever is told what happens; it is called from several threads."""

    def say(self, **content: Any) -> None:
        """Take an object."""


class Telling:
    """Tells what changes from one snapshot to the next.

    Args:
        settings: who is told, and where figures are shown.
        voice: is told each event, and what goes wrong.
    """

    def __init__(self, settings: Settings, voice: Says) -> None:
        self._voice = voice
        self._changes = Changes()
        self._heard: Event | None = None
        webhooks = [Webhook.from_json(stated) for stated in settings.webhooks]
        self._file = Delivery([VerdictsFile(Path(settings.log_dir))], self._say)
        self._webhooks = Delivery(webhooks, self._say)
        self._exporters = [started(from_json(stated), self._say) for stated in settings.show_in]

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
        self._heard = event if is_standing(event) else None
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
        self._voice.say(event=event)
        self._webhooks.deliver(event)

    def close(self) -> None:
        """Have the last of it arrive, as far as that takes a few seconds, and say what did not."""
        self._file.close(_FILE_S)
        self._webhooks.close()
        for exporter in self._exporters:
            exporter.close()

    def _say(self, text: str) -> None:
        self._voice.say(said=text)
