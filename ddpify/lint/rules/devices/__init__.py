"""Rules about devices: DDP2xx."""
