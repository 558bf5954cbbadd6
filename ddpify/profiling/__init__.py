"""`ddpify profile`: what a training step's time goes into, on several numbers of processes."""
