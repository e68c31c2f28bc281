"""The types of tables and arrays that analyses take and return."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from narwhals.typing import IntoDType, IntoSeries

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[np.generic]
"""Values of any one type."""

ScalarT = TypeVar("ScalarT", bound=np.generic)

Rows: TypeAlias = "slice | Ints"
"""What selects rows of a table or array: their positions, or a slice."""

Frame: TypeAlias = "nw.DataFrame[Any]"
"""A table of any library. ``nw.DataFrame`` is invariant, so no narrower type has those of all libraries."""

Column: TypeAlias = "nw.Series[IntoSeries]"
"""A column of a table of any library."""

Schema: TypeAlias = "Mapping[str, IntoDType]"
"""The type of each column of a table, by its name."""

Record: TypeAlias = "Mapping[Hashable, Any]"
"""A row of a table, as pandas' ``to_dict("records")`` returns it, with values of several types."""
