"""Rules about what `ddpify convert` would do: DDP002 and DDP003."""
