"""Rules about old names: DDP9xx."""
