"""Finds what goes wrong when a PyTorch training script runs on several processes."""
