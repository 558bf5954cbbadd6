"""What statements and expressions of Python do to values."""
