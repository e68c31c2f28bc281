"""The package of this name in version 0.2: the names of its modules are in ``timing_logger.compat`` now."""
