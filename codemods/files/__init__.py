"""Codemods of what is written and read: checkpoints, files, folders, loggers."""
