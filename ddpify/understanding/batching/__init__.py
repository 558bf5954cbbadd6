"""Which batch is current, where its rows are, and which objects hold them for longer."""
