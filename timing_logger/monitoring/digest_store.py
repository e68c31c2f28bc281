"""Digests of hosts that share no folder: they pass through the store by which a job's ranks found each other.

That is the ``TCPStore`` of torch.distributed at ``MASTER_ADDR`` and ``MASTER_PORT``. It is no communicator of
the training, and no rank waits for what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from timing_logger.engine.live.digest import Digest
from timing_logger.engine.live.digest_folder import KEPT
from timing_logger.engine.live.packed import DamagedDigest, unpacked
from timing_logger.launchers import Environment

if TYPE_CHECKING:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

_PREFIX = "timing_logger/digests"
_LIMIT = timedelta(seconds=5)


class StoreAddress(NamedTuple):
    """Where a store is."""

    host: str
    port: int


def address_of(environment: Environment) -> StoreAddress | None:
    """Return where the store of the job is whose processes have this environment; None if it has none."""
    host, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    return StoreAddress(host, int(port)) if host and port.isdecimal() else None


def environment_of(pid: int) -> Environment:
    """Return the environment of a process of this host and user; nothing of any other."""
    try:
        stated = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in stated)
    return {name: value for name, _, value in pairs}


class DigestStore:
    """The digests in a store: a number for each host, and its last few digests under that.

    Args:
        address: where the store is.

    Raises:
        ImportError: there is no torch.
        Exception: from each method whatever torch raises, if the store does not answer within five seconds.
    """

    def __init__(self, address: StoreAddress) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        self._store: TCPStore = TCPStore(
            address.host, address.port, is_master=False, wait_for_workers=False, timeout=_LIMIT
        )
        self._own: int | None = None
        self._seen: dict[int, int] = {}

    def write(self, number: int, data: bytes) -> None:
        """Put the digest of this host in the place of the one that came ``KEPT`` digests before."""
        if self._own is None:
            self._own = self._store.add(f"{_PREFIX}/hosts", 1) - 1
        self._store.set(f"{_PREFIX}/{self._own}/{number % KEPT}", data)  # type: ignore[arg-type]
        self._store.set(f"{_PREFIX}/{self._own}/latest", str(number))

    def read(self) -> Iterator[Digest]:
        """Yield the digests that were not read before, those of each host in their order."""
        for host in range(self._store.add(f"{_PREFIX}/hosts", 0)):
            if not self._store.check([f"{_PREFIX}/{host}/latest"]):
                continue
            latest = int(self._store.get(f"{_PREFIX}/{host}/latest"))
            for number in range(max(self._seen.get(host, -1) + 1, latest - KEPT + 2), latest + 1):
                yield from self._digest(host, number)
            self._seen[host] = latest

    def _digest(self, host: int, number: int) -> Iterator[Digest]:
        try:
            yield unpacked(self._store.get(f"{_PREFIX}/{host}/{number % KEPT}"))
        except DamagedDigest:
            return
