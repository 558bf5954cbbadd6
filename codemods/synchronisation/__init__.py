"""Codemods that make the values of all ranks one: reductions, gradients, decisions."""
