"""Runs with a fault, what they would have taken without it, and what they did take without it."""
