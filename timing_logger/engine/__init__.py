"""Run analyses on timing files of any size: in memory, file by file, or in blocks."""
