"""Lets the ranks agree, before a reduction, on what they are about to reduce.

They do so by one small allgather of numbers. Only if the numbers do not agree, a second one of texts
follows: every rank has seen the same numbers, so every rank takes part in it, and every rank raises.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from allreduce_instrumentation.sparse._transport import Transport
from timing_logger.errors import ReductionError

MAX_FACTS = 4
"""The most numbers of its own that an algorithm may have compared."""

_TEXT_BYTES = 512


@dataclass(frozen=True, slots=True)
class Statement:
    """One rank's statement of what it is about to reduce.

    Attributes:
        algorithm: name of the algorithm.
        name: name of the tensor.
        length: number of entries of the tensor.
        dtype: dtype of the tensor.
        travels_as: dtype of its values when they travel.
        travels_from: type of the device from which they travel.
        density: the compressor's density; 1.0 for one that leaves nothing out.
        facts: numbers of the algorithm that must be the same on all ranks, at most ``MAX_FACTS``.
        trouble: why this rank cannot take part, and then the rest does not count; None if it can.
    """

    algorithm: str = ""
    name: str = ""
    length: int = 0
    dtype: str = ""
    travels_as: str = ""
    travels_from: str = ""
    density: float = 1.0
    facts: Mapping[str, int] = field(default_factory=dict)
    trouble: str | None = None

    def parts(self) -> list[tuple[int, str]]:
        """Return what has to be the same on all ranks: as int64 numbers, texts as digests, and in words.

        All statements have equally many parts.
        """
        stated = [
            (int(self.trouble is not None), f"cannot take part: {self.trouble}"),
            (_digest(self.algorithm), f"algorithm {self.algorithm}"),
            (_digest(self.name), f"name {self.name!r}"),
            (self.length, f"{self.length} entries"),
            (_digest(self.dtype), f"dtype {self.dtype}"),
            (_digest(self.travels_as), f"values that travel as {self.travels_as}"),
            (_digest(self.travels_from), f"values that travel from {self.travels_from}"),
            (struct.unpack("<q", struct.pack("<d", self.density))[0], f"density {self.density!r}"),
        ]
        facts = [(value, f"{fact} {value}") for fact, value in self.facts.items()]
        return [*stated, *facts, *[(0, "no such number")] * (MAX_FACTS - len(facts))]


def agree(transport: Transport, mine: Statement) -> None:
    """Compare the statements of all ranks. Collective; whatever one rank states, no rank waits for ever.

    Raises:
        ReductionError: on every rank, if some rank cannot take part or the statements differ; the message
            names the ranks and what they stated.
    """
    numbers, words = zip(*mine.parts(), strict=True)
    stated = torch.tensor(numbers, dtype=torch.int64, device=transport.control_device)
    everyone = transport.allgather(stated, "agreement").cpu()
    if bool((everyone == everyone[0]).all()) and not everyone[0, 0]:
        return
    troubled = everyone[:, 0].any()
    differing = 0 if troubled else int((everyone != everyone[0]).any(dim=0).nonzero()[0])
    said = _exchange_texts(transport, words[differing])
    if troubled:
        raise ReductionError(_who_cannot(everyone[:, 0].tolist(), said))
    raise ReductionError(
        f"the ranks do not agree on what to reduce: {_who_said_what(said)}. Call it with the same arguments, "
        "but for the tensor's values, in the same order on every rank."
    )


def _exchange_texts(transport: Transport, text: str) -> list[str]:
    content = _utf8(text)[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0")
    mine = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(transport.control_device)
    everyone: Tensor = transport.allgather(mine, "disagreement").cpu()
    return [row.numpy().tobytes().rstrip(b"\0").decode(errors="ignore") for row in everyone]


def _who_cannot(cannot: list[int], said: list[str]) -> str:
    reasons = [f"rank {rank} {said[rank]}" for rank, flag in enumerate(cannot) if flag]
    return f"nothing was reduced: {'; '.join(reasons)}"


def _who_said_what(said: list[str]) -> str:
    ranks: dict[str, list[str]] = {}
    for rank, text in enumerate(said):
        ranks.setdefault(text, []).append(str(rank))
    return ", ".join(
        f"{text} on rank{'s' if len(those) > 1 else ''} {' '.join(those)}" for text, those in ranks.items()
    )


def _digest(text: str) -> int:
    """Return a hash of ``text`` in 63 bits that is the same in every process."""
    digest = hashlib.blake2b(_utf8(text), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _utf8(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
