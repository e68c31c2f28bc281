"""What is said of all ranks: roles, all slower at once, time lost in turn, what is not known."""
