"""Rules about speed: DDP8xx."""
