"""Where things are: the repository, its tests, and what several tests look at."""

from __future__ import annotations

from pathlib import Path

HELPERS = Path(__file__).parent
TESTS = HELPERS.parent
ROOT = TESTS.parent
SAMPLE = ROOT / "logs" / "sample"
"""Timing files of four ranks, of which rank 2 is slow."""
