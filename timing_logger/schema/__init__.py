"""The facts that recording and reading share: the record, the sidecar, the ring, the host counters."""
