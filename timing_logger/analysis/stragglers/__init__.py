"""Who is slow, if anybody."""
