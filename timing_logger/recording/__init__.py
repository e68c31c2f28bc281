"""The recording side, inside the training process: from a timed call to the file."""
