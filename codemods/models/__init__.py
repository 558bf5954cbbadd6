"""Codemods of models, their layers and their optimizers."""
