"""Rules about data: DDP1xx."""
