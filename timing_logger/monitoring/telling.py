"""Tell what changes in a run to all who are to know it, and show its figures where people look."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from timing_logger.engine.changes import Changes
from timing_logger.monitor import Settings
from timing_logger.monitoring.delivery import Delivery
from timing_logger.monitoring.destinations import from_json, started
from timing_logger.monitoring.events import event_of
from timing_logger.monitoring.receivers import VerdictsFile
from timing_logger.monitoring.watched_run import run_of
from timing_logger.monitoring.webhook import Webhook

if TYPE_CHECKING:
    from timing_logger.engine.live import Snapshot


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
        webhooks = [Webhook.from_json(stated) for stated in settings.webhooks]
        self._delivery = Delivery([VerdictsFile(Path(settings.log_dir)), *webhooks], self._say)
        self._exporters = [started(from_json(stated), self._say) for stated in settings.show_in]

    def tell(self, snapshot: Snapshot) -> None:
        """Tell what a further snapshot changes. It returns at once."""
        change = self._changes.after(snapshot.verdict, time.time())
        if change is not None:
            event = event_of(change, run_of(snapshot.files, os.environ))
            self._voice.say(event=event)
            self._delivery.deliver(event)
        for exporter in self._exporters:
            exporter.show(snapshot, change)

    def close(self) -> None:
        """Have the last of it arrive, as far as that takes a few seconds, and say what did not."""
        self._delivery.close()
        for exporter in self._exporters:
            exporter.close()

    def _say(self, text: str) -> None:
        self._voice.say(said=text)
