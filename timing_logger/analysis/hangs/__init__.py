"""Did the run end, and if not: who hangs in what, and who never came."""
