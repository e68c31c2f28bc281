"""What a run would have taken with something repaired: the replay that prices a verdict, asked anything."""
