"""The colours of figures: those of the page on a light screen, as its style sheet has them."""

from __future__ import annotations

from typing import Any

WORK, COMMUNICATION, WAITING = "#2f7a4b", "#2f6fc4", "#c7642a"
COPIES, OTHERS = "#7a55b0", "#7b8694"
INK = "#1b2430"
SHADES = [[0.0, "#eef3fa"], [1.0, "#0b2a5b"]]
"""From the least to the most."""

_CARD = "#ffffff"
_STRENGTHS = {"0": 1.0, "1": 0.72, "2": 0.5, "rest": 0.3}
"""How much of a colour is left in each of its shades; the rest is that of the paper."""

_PLAIN = {"not-timed": OTHERS, "transfer": COMMUNICATION}

OF_ROWS = {
    "own work": WORK,
    "others": OTHERS,
    "communication": COMMUNICATION,
    "copies": COPIES,
    "waiting": WAITING,
}
"""The colour of each kind of row on a timeline, in the order in which they are drawn over one another."""


def marker(kind: str) -> dict[str, Any]:
    """Return how a bar of time is drawn.

    Args:
        kind: a class of ``TimeKinds``, such as ``wait-0``.
    """
    if kind in _PLAIN:
        return solid(_PLAIN[kind])
    if kind == "not-matched":
        return hatched(COPIES)
    what, _, shade = kind.partition("-")
    if what == "wait":
        return hatched(mixed(WAITING, _STRENGTHS[shade]))
    return solid(mixed(WORK, _STRENGTHS[shade]))


def solid(colour: str) -> dict[str, Any]:
    return {"color": colour, "line": {"width": 0}}


def hatched(colour: str) -> dict[str, Any]:
    """Return how waiting is drawn: in stripes, so that nobody takes it for work in another colour."""
    stripes = {
        "shape": "/", "fillmode": "overlay", "fgcolor": _CARD, "fgopacity": 1, "solidity": 0.3, "size": 7
    }  # fmt: skip
    return {"color": colour, "pattern": stripes, "line": {"width": 0}}


def mixed(colour: str, strength: float) -> str:
    """Return a colour of which so much is left, over that of the paper."""
    parts = [
        round(strength * int(colour[at : at + 2], 16) + (1 - strength) * int(_CARD[at : at + 2], 16))
        for at in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)
