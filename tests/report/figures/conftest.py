"""What the tests of figures draw."""

from __future__ import annotations

import pandas as pd
import pytest
from places import SAMPLE

from timing_logger import read_timings


@pytest.fixture(scope="session")
def timings() -> pd.DataFrame:
    """Return the rows of the sample."""
    return read_timings(SAMPLE)
