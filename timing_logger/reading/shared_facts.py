"""Facts on files that all copies of a table share."""

from __future__ import annotations

from typing import Any


class SharedFacts(list[Any]):
    """A list in ``attrs`` of a table that is not copied with it.

    pandas copies ``attrs`` deeply with each table and each column that is taken of one. With the sidecars of
    thousands of files that takes longer than to read them. So nobody may change what is in such a list.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedFacts:
        return self
