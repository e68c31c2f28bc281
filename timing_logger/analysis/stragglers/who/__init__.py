"""Who is slow: candidates, ranks that are slow as one, hosts, culprits."""
