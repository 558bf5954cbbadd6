"""Codemods of devices: each rank uses its own."""
