"""Which batch is at hand, where its rows are, and what keeps them."""
