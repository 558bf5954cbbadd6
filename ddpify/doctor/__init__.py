"""`ddpify doctor`: what in an environment would keep ranks from training together."""
