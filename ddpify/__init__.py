"""ddpify: from a single-GPU PyTorch training script to one that torchrun trains the same."""

import os

__version__ = "0.1.0"

_here = os.path.dirname(__file__)
if not os.path.isdir(os.path.join(_here, "codemods")):
    # A source checkout keeps the codemods beside the package; a wheel carries them inside it.
    __path__.append(os.path.dirname(_here))
