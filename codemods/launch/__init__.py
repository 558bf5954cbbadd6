"""Codemods of the start: the process group, and what a script asks about its launch."""
