"""Which rows are one collective or message, and what follows from that."""
