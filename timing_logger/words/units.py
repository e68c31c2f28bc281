"""Figures with their units, names in quotes, and paragraphs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from timing_logger.schema.record import escape_text

UNKNOWN = "-"
_MAX_QUOTED = 60
_LEAST_MS = 0.1  # shorter durations are told in us


def quoted(text: str) -> str:
    """Return a text in quotes, cut where it is long."""
    shown = escape_text(text)
    return f"'{shown}'" if len(shown) <= _MAX_QUOTED else f"'{shown[:_MAX_QUOTED]}...'"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``3 ranks``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def or_unknown(value: object) -> str:
    """Return a value, or the sign for what is unknown."""
    return UNKNOWN if value is None else str(value)


def yes_or_no(value: bool | None) -> str:
    """Return yes, no, or the sign for what is unknown."""
    return {True: "yes", False: "no", None: UNKNOWN}[value]


def fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals."""
    return UNKNOWN if math.isnan(value) else f"{value:.{decimals}f}"


def percent(share: float) -> str:
    """Return a share in [0, 1] as percent."""
    return UNKNOWN if math.isnan(share) else f"{100 * share:.1f}%"


def seconds(ms: float) -> str:
    """Return a time in ms as seconds."""
    return f"{ms / 1000:.2f} s" if ms >= 100 else f"{ms / 1000:.3g} s"


def size(n_bytes: float) -> str:
    """Return a number of bytes in a few letters, such as ``47.4 MB``."""
    if math.isnan(n_bytes):
        return UNKNOWN
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return (
                f"{n_bytes / factor:.3g} {unit}"
                if n_bytes < 999.5 * factor
                else f"{n_bytes / factor:.0f} {unit}"
            )
    return f"{n_bytes:.0f} B"


def process_name(rank: int, incarnation: int) -> str:
    """Return the name of a process on the page; only a rank that was started again needs the number."""
    return f"rank {rank}" if incarnation == 1 else f"rank {rank}, run {incarnation}"


def as_ms(value: float) -> str:
    """Return a time in ms with three decimals."""
    return fixed(value, 3)


def as_duration(ms: float) -> str:
    """Return a duration with its unit, such as ``30.618 ms`` or ``0.52 us``."""
    return f"{1e3 * ms:.2f} us" if ms < _LEAST_MS else f"{fixed(ms, 3)} ms" if ms == ms else UNKNOWN


def as_utc(unix_ns: int | None) -> str:
    """Return an instant, given in ns since 1970, such as ``2026-02-06 14:30:45 UTC``."""
    if unix_ns is None:
        return UNKNOWN
    try:
        return f"{datetime.fromtimestamp(unix_ns / 1e9, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):  # no year that a calendar has
        return UNKNOWN


def as_tenths(value: float) -> str:
    """Return a number with one decimal."""
    return fixed(value, 1)


def as_hundredths(value: float) -> str:
    """Return a number with two decimals."""
    return fixed(value, 2)


def as_gb_per_s(value: float) -> str:
    """Return a bandwidth in GB/s; a small one in powers of ten."""
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}"


def as_word(value: object) -> str:
    """Return a value as one line of text."""
    return escape_text(str(value))


def listed(texts: Sequence[str]) -> str:
    """Return texts as a list in a sentence, of which any may be meant."""
    return texts[0] if len(texts) == 1 else f"{'; '.join(texts[:-1])}; or {texts[-1]}"


# -- paragraphs ----------------------------------------------------------------------------------


def wrapped(line: str, width: int) -> str:
    """Return a line in lines of this width."""
    return textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def paragraph(width: int, *sentences: str) -> Iterable[str]:
    """Yield the sentences as one paragraph of this width, if there are any."""
    if sentences:
        yield "\n".join(wrapped(sentence, width) for sentence in sentences)


def page(*parts: str) -> str:
    """Return parts with a blank line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
