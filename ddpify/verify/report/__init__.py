"""A verdict as text, JSON and a page."""
