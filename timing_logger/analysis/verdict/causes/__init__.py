"""What host counters did while time was lost, as a verdict states it."""
