"""Codemods of loaders and batches: what each rank gets of them."""
