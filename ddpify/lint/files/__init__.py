"""Which files are linted, and what kind each of them is."""
