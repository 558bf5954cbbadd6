"""From what the comparisons found to a verdict."""
