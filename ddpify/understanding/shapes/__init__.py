"""How many rows and dimensions tensors have, and where slices of them end."""
