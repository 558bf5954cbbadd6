"""What operations make of tensors whose rows are split among the ranks."""
