"""A script as the rules see it: what they ask about it, and the edits that they share."""
