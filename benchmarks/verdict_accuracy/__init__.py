"""Simulated runs in which it is known who is slow, and how good the verdicts on them are."""
