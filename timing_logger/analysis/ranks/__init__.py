"""Analyses of what each rank spent its time on."""
