"""One way from files to an answer, at every size."""
