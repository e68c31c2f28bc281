"""Measures how far apart the clocks of the ranks' hosts are."""

from __future__ import annotations

from allreduce_instrumentation.clock_sync.synchronisation import synchronise_clocks

__all__ = ["synchronise_clocks"]
