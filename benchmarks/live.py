"""What is told of a run while it goes on: how soon, how often right, how often wrongly, and what it costs.

Some of it is measured in real jobs on this machine, which should have nothing else to do; most of it in jobs
on a simulated clock, which are judged as a monitor judges. ``docs/live.md`` says what each figure means.

Run: python benchmarks/live.py [--quick] [--only REGEX] [--write docs/live.md]
"""

from __future__ import annotations

from _tables_of_page import measure, parser_of
from live_runs.parts import PARTS


def main() -> None:
    parser = parser_of(__doc__, "fewer jobs, at most 512 ranks: five minutes")
    measure(parser, {name: lambda asked, part=part: part(asked.quick) for name, part in PARTS.items()})


if __name__ == "__main__":
    main()
