"""Simulated runs with host counters, of which it is known which counter has to do with what is slow."""
