"""Where labels of values go, whatever the order of statements."""
