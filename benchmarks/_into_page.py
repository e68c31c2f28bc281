"""Puts what a benchmark prints into a page, between marks with its name, and passes it on."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main() -> None:
    page, name = Path(sys.argv[1]), sys.argv[2]
    lines = []
    for line in sys.stdin:
        print(line, end="", flush=True)
        lines.append(line)
    if not lines:
        raise SystemExit(f"{name}: nothing was printed; {page} stays as it is")
    text = page.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- made: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    made, places = marked.subn(lambda found: f"{found[1]}```\n{''.join(lines)}```\n{found[2]}", text)
    if places != 1:
        raise SystemExit(f"{page} has no place for {name!r}: <!-- made: {name} --> and <!-- end -->")
    page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
