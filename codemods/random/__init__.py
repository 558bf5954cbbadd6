"""Codemods of random numbers, and of names and orders that each process makes up."""
