"""Rules about random numbers: DDP6xx."""
