"""Records that wait for a device: created with events, and written with instants.

Only the thread that holds the flusher's lock may use this module.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from timing_logger.recording.device.clock import DeviceClock
from timing_logger.recording.device.devices import Device, devices_in_use
from timing_logger.recording.device.intervals import DeviceInterval
from timing_logger.schema.record import INFLIGHT, OK, START, STREAM, UNRESOLVED, RawRecord, Record
from timing_logger.schema.sidecar import DeviceClockInfo

_GROUP = Record._fields.index("group")


class DeviceRows:
    """Holds records back until their device has passed the end of their interval.

    Records of one stream come out in their order.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, RawRecord] = {}
        self._entered = 0
        self._clocks: dict[Device, DeviceClock] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def sift(self, batch: list[RawRecord]) -> list[RawRecord]:
        """Return the records of ``batch`` that wait for no device; the others are held back."""
        ready = []
        for record in batch:
            if type(record[START]) is DeviceInterval:
                self._waiting[self._entered] = record
                self._entered += 1
            else:
                ready.append(record)
        return ready

    def bookmark(self) -> int:
        """Return a position after every record that is held back now, see :meth:`passed`."""
        return self._entered

    def passed(self, bookmark: int) -> bool:
        """Tell whether every record that was held back at ``bookmark`` has come out."""
        return next(iter(self._waiting), bookmark) >= bookmark

    def resolved(self, *, asked: bool) -> list[RawRecord]:
        """Return the records whose duration is known by now, or never will be. Does not wait.

        Args:
            asked: whether a user waits for them. If a query might break a graph capture on another thread,
                the device is queried only then.
        """
        out = {key: _unresolved(record) for key, record in self._waiting.items() if _is_lost(record)}
        for device, keys in self._latest_first(out).items():
            self._ask(device, keys, out, asked=asked)
        for key in out:
            del self._waiting[key]
        return [out[key] for key in sorted(out)]

    def given_up(self) -> list[RawRecord]:
        """Return all records still held back, as ``unresolved``.

        Records whose duration is known, and only the start is not, start at the moment they were issued.
        """
        left = [_placed_by_issue(record) for record in self._waiting.values()]
        self._waiting.clear()
        return left

    def issued_before(self, instant_ns: int) -> Iterator[tuple[DeviceInterval, RawRecord]]:
        """Yield the intervals issued before ``instant_ns`` that are held back and belong to a group.

        Each comes with its record as it would be written now. Those are the parts of collectives and
        messages.
        """
        for record in list(self._waiting.values()):
            if record[_GROUP] and record[START].issued_ns < instant_ns:
                yield record[START], _unresolved(record, INFLIGHT)

    def info(self) -> list[DeviceClockInfo]:
        """Return the content of the sidecar for each device's clock."""
        return [self._clock(device).info() for device in devices_in_use()]

    # -- parts ----------------------------------------------------------------------------------

    def _latest_first(self, settled: Container[int]) -> dict[Device, list[int]]:
        """Return the keys of the other waiting records for each device, latest first.

        When they are queried in this order, nothing before a finished record in its stream is unfinished.
        """
        keys: dict[Device, list[int]] = {}
        for key in reversed(self._waiting):
            if key not in settled:
                keys.setdefault(self._waiting[key][START].device, []).append(key)
        return keys

    def _clock(self, device: Device) -> DeviceClock:
        return self._clocks.get(device) or self._clocks.setdefault(device, DeviceClock(device))

    def _ask(self, device: Device, keys: Sequence[int], out: dict[int, RawRecord], *, asked: bool) -> None:
        clock = self._clock(device)
        try:
            with device.accelerator.asking(device.index) as harmless:
                if not (harmless or asked):
                    return
                clock.renew()
                for key in keys:
                    record = _resolved(self._waiting[key], clock)
                    if record is not None:
                        out[key] = record
        except Exception as error:  # the next call of resolved() writes the records lost by this
            device.note(error)


def _is_lost(record: RawRecord) -> bool:
    interval: DeviceInterval = record[START]
    return interval.lost or bool(interval.device.failed and interval.elapsed_ns is None)


def _resolved(record: RawRecord, clock: DeviceClock) -> RawRecord | None:
    """Return ``record`` with its start and end; None if they are not known yet."""
    interval: DeviceInterval = record[START]
    if not interval.ask():
        return None
    if interval.lost:
        return _unresolved(record)
    start_ns = clock.place(interval)
    return None if start_ns is None else _placed(record, start_ns)


def _placed_by_issue(record: RawRecord) -> RawRecord:
    """Return ``record`` with the moment of issue as its start, which is the earliest possible one."""
    interval: DeviceInterval = record[START]
    return _unresolved(record) if interval.elapsed_ns is None else _placed(record, interval.issued_ns)


def _placed(record: RawRecord, start_ns: int) -> RawRecord:
    interval = record[START]
    return (
        *record[:START], start_ns, start_ns + interval.elapsed_ns, *record[START + 2 : STREAM],
        interval.stream_name, *record[STREAM + 1 :],
    )  # fmt: skip


def _unresolved(record: RawRecord, status: str = UNRESOLVED) -> RawRecord:
    """Return ``record`` with the moment of issue as its start, and without an end."""
    interval: DeviceInterval = record[START]
    raw = Record(*record)
    status = status if raw.status == OK else raw.status
    return tuple(raw._replace(start_ns=interval.issued_ns, status=status, stream=interval.stream_name))
