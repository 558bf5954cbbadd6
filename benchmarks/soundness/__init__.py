"""Converts generated training scripts by the thousand, and runs them to see whether any changed."""
