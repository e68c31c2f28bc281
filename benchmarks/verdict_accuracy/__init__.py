"""Simulates runs in which the slow ranks are known, and scores the verdicts on them."""
