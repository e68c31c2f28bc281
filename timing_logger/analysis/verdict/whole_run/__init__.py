"""What is said of a run as a whole: roles, all ranks slower, lost in turn, transfers, what is not known."""
