"""Which ranks are slow: slow steps, candidates, their cost, those that act as one, hosts, culprits."""
