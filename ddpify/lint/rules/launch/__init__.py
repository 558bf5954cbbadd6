"""Rules about the start: DDP7xx."""
