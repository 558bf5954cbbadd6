"""From facts to decisions: what to reduce, to split, to refuse, and the edits that follow."""
