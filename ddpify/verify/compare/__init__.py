"""From records to differences, and from differences to causes."""
