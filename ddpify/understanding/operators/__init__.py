"""What each operator of PyTorch and NumPy does with the samples of a batch.

The table is closed: an operator that has no row in it is not known, and what it makes of a rank's
rows may differ from what it makes of all rows. ``tests/operators`` proves each row by execution.
"""
