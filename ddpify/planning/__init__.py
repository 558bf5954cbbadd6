"""From facts to decisions: what to reduce, what to split, what to refuse, and the edits that follow."""
