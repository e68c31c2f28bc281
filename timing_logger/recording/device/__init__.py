"""Timing of work on a device: events from a pool, and the mapping of their instants to the host's clock."""
