"""The times of a run by step and rank: own work, waits, transfers. They are measured here, not judged."""
