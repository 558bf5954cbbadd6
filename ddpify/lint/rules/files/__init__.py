"""Rules about checkpoints, files and logs: DDP5xx."""
