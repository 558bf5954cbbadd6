"""Rules about what ranks must do together: DDP4xx."""
