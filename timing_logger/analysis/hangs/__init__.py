"""Find hangs: whether a run ended, and if not, which ranks hang in which call, and which never entered it."""
