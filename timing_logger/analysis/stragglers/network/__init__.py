"""Find slow transfers, links and communication."""
