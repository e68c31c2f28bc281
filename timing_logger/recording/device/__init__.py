"""Timing what a device does: events from a pool, and where their instants stand on the host's clock."""
