"""The page of a comparison: both sides, what differs first."""
