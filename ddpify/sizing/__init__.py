"""How much memory a training needs on each of many GPUs, replicated or sharded (`ddpify plan`)."""
