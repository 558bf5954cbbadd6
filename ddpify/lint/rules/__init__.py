"""One rule a file; the file is called as the rule."""
