"""What ``live.py`` needs: jobs on a simulated clock that are judged while they go on, and real ones."""
