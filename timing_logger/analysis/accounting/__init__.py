"""The account of a run: what each rank did with its time, and for whom it waited, to the last instant."""
