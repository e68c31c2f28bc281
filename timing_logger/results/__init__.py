"""What analyses return and words tell: values that know neither how they were found nor how they read."""
