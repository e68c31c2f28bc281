"""Prints the modules of a folder, each with what it is for: website/modules_page.py [FOLDER].

That is the first paragraph of its docstring or, in C and JavaScript, of the comment that it begins with.
The site has the same of both packages (pages.py), as api/modules.md.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("timing_logger", "allreduce_instrumentation")
SOURCES = {".py", ".pyx", ".pxi", ".c", ".cpp", ".h", ".js"}
MADE = {"built_from.h", "columns.h", "columns.pxi", "core.c"}
"""Sources that building makes."""
PURPOSE = re.compile(r'(?:# .*\n)*(?:"""(.*?)"""|/\*(.*?)\*/|((?://.*\n)+))', re.DOTALL)
"""What a file begins with: a docstring, in Python and Cython, or a comment, in C and JavaScript."""


def purpose(file: Path) -> str:
    """Return what a file says that it is for, in one line; "" if it says nothing, as C beside its header."""
    found = PURPOSE.match(file.read_text(encoding="utf-8"))
    text = next(filter(None, found.groups()), "") if found else ""
    first = re.split(r"\n[ */]*\n", text.strip())[0]
    plain = re.sub(r"(?m)^ \* ?|^// ?", " ", first)
    return re.sub(r":\w+:`([^`]+)`|``([^`]+)``", r"`\1\2`", " ".join(plain.split())).replace("**", "")


def folders(*names: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield each folder with modules in these: its path, its purpose, and names and purposes of modules."""
    for folder in sorted(path for name in names for path in (ROOT / name).glob("**/")):
        files = [
            file for file in sorted(folder.iterdir()) if file.suffix in SOURCES and file.name not in MADE
        ]
        told = {file.name: said for file in files if (said := purpose(file))}
        if told:
            about = told.pop("__init__.py", "")
            yield folder.relative_to(ROOT).as_posix(), about, list(told.items())


def page() -> Iterator[str]:
    """Yield the lines of the page in the site."""
    yield "# Modules"
    for folder, about, modules in folders(*PACKAGES):
        yield from ("", f"## {folder}", "", *([about, ""] if about else []))
        yield from (f"- `{name}`: {said}" for name, said in modules)


def main() -> None:
    names = [name.rstrip("/") for name in sys.argv[1:]] or PACKAGES
    listed = list(folders(*names))
    if not listed:
        raise SystemExit(
            f"no modules in {', '.join(names)}: name folders of the repository, as timing_logger/analysis"
        )
    for folder, about, modules in listed:
        print(f"{folder}/  {about}".rstrip())
        width = max((len(name) for name, _ in modules), default=0)
        for name, said in modules:
            print(textwrap.fill(f"  {name:{width}}  {said}", 120, subsequent_indent=" " * (width + 4)))
        print()


if __name__ == "__main__":
    main()
