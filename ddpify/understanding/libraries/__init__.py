"""What calls of PyTorch and other libraries give and do."""
