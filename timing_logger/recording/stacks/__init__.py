"""Samples of where in the program's code the main thread is."""
