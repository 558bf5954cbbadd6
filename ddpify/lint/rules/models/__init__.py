"""Rules about models and how they are wrapped: DDP3xx."""
