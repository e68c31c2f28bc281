"""Find the role of each rank: ranks of one role do the same work, so they may be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import narwhals as nw
from narwhals.typing import IntoDataFrame, IntoDataFrameT

from timing_logger.analysis.rows.files import File, sidecar_of

NO_ROLE = ""
"""The role of every rank where none is stated."""


def roles_of(
    timings: IntoDataFrameT, ranks: Iterable[int], stated: Mapping[int, object] | None
) -> dict[int, str]:
    """Return the role of each rank, as text.

    Roles are taken from what the caller states, else from a column ``role``, else from the labels in the
    sidecars of the files that were read (``timings.attrs["files"]``): equal labels are one role.
    A rank without any of these has the role ``NO_ROLE``.

    Args:
        timings: a table of timings.
        ranks: the ranks whose roles are returned.
        stated: the role of each rank, or of some; None to take the other sources.
    """
    known = _stated(stated) or _from_column(timings) or _from_labels(timings)
    return {rank: known.get(rank, NO_ROLE) for rank in ranks}


def _stated(roles: Mapping[int, object] | None) -> dict[int, str]:
    return {rank: _text(role) for rank, role in (roles or {}).items()}


def _from_column(timings: IntoDataFrameT) -> dict[int, str]:
    frame = nw.from_native(timings)
    if "role" not in frame.collect_schema().names():
        return {}
    stated = frame.select("rank", "role").unique()
    stated = stated.collect() if isinstance(stated, nw.LazyFrame) else stated
    return {rank: _text(role) for rank, role in stated.iter_rows()}


def _from_labels(timings: IntoDataFrame) -> dict[int, str]:
    files: Sequence[File] = getattr(timings, "attrs", {}).get("files", [])
    return {file["rank"]: _text(sidecar_of(file).get("labels")) for file in files}


def _text(role: object) -> str:
    if isinstance(role, Mapping):
        return ", ".join(f"{name}={value}" for name, value in sorted(role.items()))
    return NO_ROLE if role is None or role != role else str(role)
