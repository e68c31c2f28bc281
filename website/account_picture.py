"""Draws docs/account.svg: an account of four ranks, and that run played again without its slow rank.

make picture runs it. The run is made up; what is drawn of it follows the rules of ``analysis.account`` and of
playing a run again, and tests/project/test_account_picture.py holds it against both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).parent.parent / "docs" / "account.svg"

STEPS, SLOW = 2, 3
PAIRS = (((0, 1), (2, 3)), ((1, 2), (0, 3)))
"""The ranks of a step's first all-reduces, and of its second."""
TRANSFERS_MS = (8, 12)
TRANSFER_OF_OTHERS = -1


class Part(NamedTuple):
    """What a rank does from one instant to another; ``rank`` is the one that it waits for."""

    what: str
    begin_ms: int
    end_ms: int
    rank: int = TRANSFER_OF_OTHERS


def run(slow_data_ms: int) -> list[list[Part]]:
    """Return the parts of each rank, with another time of the slow rank in DATA."""
    parts: list[list[Part]] = [[] for _ in range(4)]
    for _ in range(STEPS):
        for rank, its in enumerate(parts):
            now = its[-1].end_ms if its else 0
            data, backward = (slow_data_ms if rank == SLOW else 14), (44 if rank == 0 else 36)
            for what, took in (("DATA", data), ("BACKWARD", backward), ("not timed", 6)):
                its.append(Part(what, now, now := now + took))
        for pairs, took in zip(PAIRS, TRANSFERS_MS, strict=True):
            for pair in pairs:
                _all_reduce(parts, pair, took)
    return parts


def _all_reduce(parts: list[list[Part]], pair: Sequence[int], took: int) -> None:
    first, last = sorted(pair, key=lambda rank: parts[rank][-1].end_ms)
    came, done = parts[first][-1].end_ms, parts[last][-1].end_ms
    parts[first] += _waits(parts[last], last, came, done)
    for rank in pair:
        parts[rank].append(Part("transfer", done, done + took))


def _waits(others: Sequence[Part], other: int, begin: int, end: int) -> Iterator[Part]:
    """Yield for whom a rank waits: where the other one waited itself, for whom that one did."""
    found: list[Part] = []
    for part in others:
        since, until = max(begin, part.begin_ms), min(end, part.end_ms)
        if since < until:
            whom = {"waiting": part.rank, "transfer": TRANSFER_OF_OTHERS}.get(part.what, other)
            if found and found[-1].rank == whom:
                since = found.pop().begin_ms
            found.append(Part("waiting", since, until, whom))
    yield from found


def played_again() -> tuple[list[list[Part]], list[list[Part]]]:
    """Return the run as recorded, and with the slow rank like its peers."""
    return run(54), run(14)


# -- the picture ---------------------------------------------------------------------------------------------

LEFT, SCALE, BAR, ROW, WIDTH = 62, 2.92, 22, 29, 764
TOPS, HEIGHT = (48, 218), 446

STYLE = """\
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #1b2430 }
.small { font-size: 12px }
.head { font-weight: 600; font-size: 14px }
.soft { fill: #55606e }
.page { fill: #ffffff }
.frame { fill: none; stroke: #d9dee5 }
.data { fill: #8fcca4 }
.backward { fill: #bfe3cb }
.untimed { fill: #c9d0d9 }
.transfer { fill: #9cc3f3 }
.waiting { fill: #f6c9ab }
.other { fill: #fbe8dc }
.line { stroke: #55606e; fill: none }
.end { stroke: #a3adb9; stroke-dasharray: 3 3 }
.lead { stroke: #b3261e; fill: none; stroke-width: 2 }
.tip { fill: #b3261e }
.cost { stroke: #b3261e; stroke-width: 2 }
.costs { fill: #b3261e; font-weight: 600 }
@media (prefers-color-scheme: dark) {
text { fill: #e6ebf1 }
.soft { fill: #a3afbd }
.page { fill: #18202a }
.frame { stroke: #2f3a47 }
.data { fill: #2f7a4b }
.backward { fill: #225637 }
.untimed { fill: #4a5563 }
.transfer { fill: #2b5c9e }
.waiting { fill: #96501f }
.other { fill: #55331c }
.line { stroke: #a3afbd }
.end { stroke: #5d6a79 }
.lead, .cost { stroke: #ff9a90 }
.tip, .costs { fill: #ff9a90 }
}"""

TITLE = "The account of a run of four ranks, and the same run with rank 3 like its peers"
CLASSES = {"DATA": "data", "BACKWARD": "backward", "not timed": "untimed", "transfer": "transfer"}
LEGEND = (
    ((14, "data", ""), (32, "backward", "own work, by name"), (222, "untimed", "not timed"),
     (342, "transfer", "transfer")),
    ((14, "waiting", "waiting, and for which rank"), (222, "other", "waiting for a transfer between others")),
)  # fmt: skip
LED = "rank 1 waits for rank 2, which itself waits for rank 3 at that instant: so rank 1 waits for rank 3"


def drawn() -> str:
    """Return the picture."""
    recorded, again = played_again()
    return "\n".join(
        (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg" role="img">',
            f"<title>{TITLE}</title>",
            f"<style>\n{STYLE}\n</style>",
            f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
            f'<rect class="frame" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
            *_run(recorded, TOPS[0], "As recorded: rank 3 takes 40 ms longer in DATA, in each step"),
            *_leads(),
            *_run(again, TOPS[1], "Played again with rank 3 like its peers"),
            *_cost(recorded, again),
            *_axis(),
            *_legend(),
            "</svg>\n",
        )
    )


def _x(ms: float) -> float:
    return round(LEFT + SCALE * ms, 1)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _run(parts: Sequence[Sequence[Part]], top: int, head: str) -> Iterator[str]:
    yield _text(14, top - 24, head, "head")
    end_ms = parts[0][-1].end_ms
    for step in range(STEPS):
        begin, end = (end_ms * at // STEPS for at in (step, step + 1))
        x, bottom = _x(end), top + 4 * ROW - 2
        yield _text(
            _x((begin + end) / 2), top - 5, f"step {step + 1}: {end - begin} ms", "small soft", "middle"
        )
        yield f'<line class="end" x1="{x}" x2="{x}" y1="{top - 14}" y2="{bottom}"/>'
    for rank, its in enumerate(parts):
        y = top + ROW * rank
        yield _text(14, y + 16, f"rank {rank}")
        for part in its:
            yield from _bar(part, y)


def _bar(part: Part, y: int) -> Iterator[str]:
    kind = CLASSES.get(part.what) or ("waiting" if part.rank >= 0 else "other")
    x, width = _x(part.begin_ms), SCALE * (part.end_ms - part.begin_ms) - 1
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width:.1f}" height="{BAR}"/>'
    if part.what == "waiting" and part.rank >= 0:
        whom, at = (f"for {part.rank}", 6.0) if width > 40 else (f"{part.rank}", width / 2 - 4)
        yield _text(round(x + at, 1), y + 15.5, whom, "small")
    if part.what in ("DATA", "BACKWARD"):
        yield _text(round(x + width / 2, 1), y + 15.5, part.what, "small", "middle")


def _leads() -> Iterator[str]:
    """Lead the wait of rank 1 for rank 2 to rank 3, at one instant."""
    x, y = _x(88), [TOPS[0] + ROW * rank for rank in range(4)]
    for above, below in ((1, 2), (2, 3)):
        begin, end = y[above] + BAR / 2, y[below] + 3
        yield f'<circle class="tip" cx="{x}" cy="{begin:g}" r="3"/>'
        yield f'<line class="lead" x1="{x}" x2="{x}" y1="{begin:g}" y2="{end - 6}"/>'
        yield f'<path class="tip" d="M{x - 5} {end - 7}h10l-5 8z"/>'


def _cost(recorded: Sequence[Sequence[Part]], again: Sequence[Sequence[Part]]) -> Iterator[str]:
    was, would = (parts[0][-1].end_ms for parts in (recorded, again))
    begin, end, y = _x(would) + 3, _x(was), TOPS[1] + 42
    yield f'<line class="end" x1="{end}" x2="{end}" y1="{TOPS[0] + 4 * ROW}" y2="{TOPS[1] + 4 * ROW - 2}"/>'
    yield f'<line class="cost" x1="{begin + 8}" x2="{end - 9}" y1="{y}" y2="{y}"/>'
    yield f'<path class="tip" d="M{begin} {y}l9 -5v10z"/>'
    yield f'<path class="tip" d="M{end - 1} {y}l-9 -5v10z"/>'
    middle = round((begin + end) / 2, 1)
    yield _text(middle, y - 12, "what rank 3 costs:", "costs", "middle")
    yield _text(middle, y + 22, f"{was - would} ms, {(was - would) / was:.0%} of the run", "costs", "middle")


def _axis() -> Iterator[str]:
    y = TOPS[1] + 4 * ROW + 6
    yield f'<line class="line" x1="{_x(0)}" x2="{_x(232)}" y1="{y}" y2="{y}"/>'
    for ms in range(0, 201, 50):
        yield f'<line class="line" x1="{_x(ms)}" x2="{_x(ms)}" y1="{y}" y2="{y + 5}"/>'
        yield _text(_x(ms), y + 18, f"{ms} ms" if ms else "0", "small soft", "middle")


def _legend() -> Iterator[str]:
    for y, row in zip((HEIGHT - 64, HEIGHT - 42), LEGEND, strict=True):
        for x, kind, text in row:
            yield f'<rect class="{kind}" x="{x}" y="{y}" width="16" height="12"/>'
            yield from [_text(x + 22, y + 10.5, text, "small")] if text else []
    yield f'<path class="tip" d="M17 {HEIGHT - 19}h10l-5 8z"/>'
    yield _text(36, HEIGHT - 10, LED, "small")


def main() -> None:
    PICTURE.write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
