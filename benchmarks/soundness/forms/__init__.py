"""What generated scripts do: uses of operators, statements, losses, layers."""
