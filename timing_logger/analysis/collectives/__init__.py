"""Analyses of collectives and messages: matching, waits, bandwidth and compression."""
