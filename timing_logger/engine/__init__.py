"""Run analyses on timing files of any size: in memory, or batch by batch."""
