"""The host's counters: what states each, and the thread that writes them once a second."""
