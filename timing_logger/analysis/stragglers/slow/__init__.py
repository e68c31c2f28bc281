"""Tell whether a rank is slower than its peers: levels, single steps, chance, gates."""
