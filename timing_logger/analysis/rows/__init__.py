"""The rows of a table of timings: as arrays, by operation, step, epoch, role and group; and their sums."""
