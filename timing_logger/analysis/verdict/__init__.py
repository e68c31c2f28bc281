"""Find stragglers: the ranks of a run that are slow, if any."""
