"""Writes names and values of every kind, and reads them back. (P6, P13)"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from campaign.trial import Trial

_TOKENS = (
    ",", '"', '""', "'", "\r", "\n", "\r\n", "\0", "\ud800", "\udfff", "\u2028", "\u2029", "\x85", "\x1a",
    "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\\", "\\u000a", "\\\\", "\\n", "NaN", "NA", "null", "None",
    "", " ", "\t", "\u202e", "\u200b", "\ufeff", "😀", "é", "e\u0301", "ß", "İ", "</script>", "%s", "{}",
    "#", ";", "../../x", "inf", "1e400", "0x10", "true", "-",
)  # fmt: skip
_RANGES = (
    (0, 0x80),
    (0x80, 0x800),
    (0x800, 0xD800),
    (0xD800, 0xE000),
    (0xE000, 0x10000),
    (0x10000, 0x110000),
)


def random_text(chance: random.Random) -> str:
    """Return random text of every kind; sometimes it is longer than a name may be."""
    n_pieces = chance.choice((0, 1, 1, 2, 3, 8, 40)) if chance.random() < 0.99 else 1500
    return "".join(
        chance.choice(_TOKENS) if chance.random() < 0.5 else chr(chance.randrange(*chance.choice(_RANGES)))
        for _ in range(n_pieces)
    )


def _as_read(text: str, normalized: Callable[[str], str] = str) -> str:
    """Return ``text`` as it is read back: cut after 1,024 characters, with lone surrogates escaped."""
    text = normalized(text if len(text) <= 1024 else text[:1023] + "…")
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found.group()):04x}", text)


def hostile_names(trial: Trial) -> str:
    """Check that operation, layer and group of each row are read back as recorded, by both engines."""
    from timing_logger import TimingLogger, read_timings

    per_file = 200
    for number in range(1000 // per_file):
        chance = trial.chance(number)
        names = [tuple(random_text(chance) for _ in range(3)) for _ in range(per_file)]
        with trial.new_folder() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            with TimingLogger(0, folder) as logger:
                for operation, layer, group in names:
                    logger.record_timing(operation, 1.0, layer, group=group)
            for engine in ("pandas", "pyarrow"):
                found = read_timings(folder, engine=engine)  # type: ignore[call-overload]
                columns = [found[name].astype(object) for name in ("operation", "layer_name", "group")]
                for i, (wanted, row) in enumerate(zip(names, zip(*columns, strict=True), strict=True)):
                    operation, layer, group = wanted
                    with trial.one(f"names {i} of file {number} by {engine}"):
                        expected = (_as_read(operation, str.upper), _as_read(layer), _as_read(group))
                        assert row == expected, f"{row!a} and not {expected!a}"
    return "each with pandas and with pyarrow"


_VALUES: tuple[Any, ...] = (
    10**5000, -(10**5000), 2**63, -(2**63), 2**64, float("nan"), float("inf"), -float("inf"), -1, -0.0, 1e308,
    5e-324, True, False, None, "", "x" * 10**6, b"\xff", "\ud800", (), [], {}, object(), type,
    Decimal("1e999999"), 1j, range(3), print, ...,
)  # fmt: skip


def poison(trial: Trial) -> str:
    """Pass random values as random arguments: each call returns, leaves its row, and damages no other."""
    from test_recording_never_waits import CALLS, Hostile, arguments_of

    from timing_logger import TimingLogger, read_timings

    arguments = [(call, name) for call in CALLS for name in arguments_of(call)]
    n_calls = trial.times(100_000, 5_000)
    chance, values = trial.chance(), (*_VALUES, Hostile())
    with trial.new_folder() as folder:
        logger = TimingLogger(0, folder, flush_interval=0.01, maxsize=n_calls + 1)
        for number in range(n_calls):
            call, argument = chance.choice(arguments)
            value = random_text(chance) if chance.random() < 0.2 else chance.choice(values)
            with trial.one(f"call {number}, {call}({argument}={type(value).__name__})"):
                span = getattr(logger, call)(**{**CALLS[call], argument: value})
                if span is not None:
                    with span:
                        pass
        logger.close()
        with trial.one("the sums"):
            assert logger.stats == (n_calls, n_calls, 0, 0), logger.stats
        with trial.one("the file"), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(read_timings(folder)) == n_calls
    return ""
