"""PyTorch's containers of layers, by their qualified names."""

SEQUENTIAL = "torch.nn.Sequential"
LISTS_OF_LAYERS = ("torch.nn.ModuleList", "torch.nn.ModuleDict")
LAYER_CONTAINERS = (SEQUENTIAL, *LISTS_OF_LAYERS)
