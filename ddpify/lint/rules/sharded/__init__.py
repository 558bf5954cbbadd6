"""Rules about sharded models: DDPFxx."""
