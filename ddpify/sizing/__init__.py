"""How much memory a training needs on each of many GPUs, whole or sharded (`ddpify plan`)."""
