"""Files that are whole or not there: written beside their place, and put into it when complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """A path to write to, which replaces ``path`` at the end of the block, or is gone if that raises."""
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
