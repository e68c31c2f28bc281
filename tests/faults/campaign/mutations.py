"""Damages the inputs of readers: bytes, lines, JSON values, and pieces of other inputs."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

_PIECES = (
    b"\n", b"\r\n", b"\r", b",", b'"', b'""', b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8",
    b"\xef\xbb\xbf", b"nan", b"inf", b"-inf", b"-1", b"9223372036854775808", b"1e400", b"1e-400", b"9" * 400,
    b"0x1", b"\\", b"\\u", b"\\u12", b"\\ud800", b" ", b"\t", b"," * 40, b"2026-13-45T99:99:99", b"inflight",
    b"error:", b"9999-12-31T23:59:59.999999", b"0001-01-01T00:00:00.000000", b"{", b"}", b"[", b"]", b"null",
    b"true", b"unresolved",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**53 + 1, 2**63, 10**30, -(10**30), 1e308, -1e308, 5e-324, "", "x",
    "x" * 5000, "\ud800", "nan", [], {}, [[]], [None], [{}], {"a": {}}, [0] * 50, float("nan"), float("inf"),
    [1, "a"],
)  # fmt: skip


def mutated(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Return ``data`` after one to six random changes, which may insert pieces of ``others``."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        data = chance.choice(_WAYS)(data, others, chance)
    return data


def mutated_json(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Return JSON ``data`` with other values, of other types and sizes; or damage it as :func:`mutated`."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return mutated(data, others, chance)
    if chance.random() < 0.25:
        return mutated(data, others, chance)
    content = copy.deepcopy(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        holder, key = _place(content, chance)
        if holder is None:
            content = copy.deepcopy(chance.choice(_VALUES))
        elif chance.random() < 0.15:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(chance.choice(_VALUES))  # it may be changed further
    return json.dumps(content).encode()


def _place(content: Any, chance: random.Random) -> tuple[Any, Any]:
    """Return a random container in ``content`` and one of its keys; None for both if there is none."""
    holder, key = None, None
    while isinstance(content, (dict, list)) and content:
        holder = content
        key = chance.choice(list(content)) if isinstance(content, dict) else chance.randrange(len(content))
        content = content[key]
        if chance.random() < 0.3:
            break
    return holder, key


def _span(data: bytes, chance: random.Random, most: int = 200) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randrange(most))


def _flip(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _i in range(chance.choice((1, 1, 4, 30))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _remove(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _double(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:]


def _insert(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    start, _end = _span(data, chance)
    return data[:start] + chance.choice(_PIECES) + data[start:]


def _cell(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    """Replace one cell by another value."""
    cells = data.split(b",")
    cells[chance.randrange(len(cells))] = chance.choice((*_PIECES, b"", b"0", b"-5", b"1.5", b"A"))
    return b",".join(cells)


def _column(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    """Replace one column by the same value in all lines but the first."""
    first, *lines = data.split(b"\n")
    number, piece = chance.randrange(1 + first.count(b",")), chance.choice((*_PIECES, b"", b"0", b"-5"))
    changed = [line.split(b",") for line in lines]
    for cells in changed:
        if len(cells) > number:
            cells[number] = piece
    return b"\n".join([first, *map(b",".join, changed)])


def _lines(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    """Swap two lines, repeat one, or delete one."""
    lines = data.splitlines(keepends=True) or [b""]
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    way = chance.randrange(3)
    if way == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif way == 1:
        lines.insert(one, lines[other])
    else:
        del lines[one]
    return b"".join(lines)


def _cut(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _splice(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others) if others else data
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


_WAYS: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip, _flip, _remove, _double, _insert, _insert, _cell, _cell, _column, _lines, _cut, _splice,
)  # fmt: skip
