"""Time a program whose code is unchanged: ``timing-logger run -- COMMAND``, or one call of ``autolog()``."""
