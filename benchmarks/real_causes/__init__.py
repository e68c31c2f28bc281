"""Jobs that are slowed by real causes, and what is said of them."""
