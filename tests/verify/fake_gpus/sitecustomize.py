"""Two GPUs for the process that starts the ranks: the CPU in their place."""

import sys

if "-c" in sys.orig_argv:
    from ddpify.verify.inside import redirect
    from ddpify.verify.inside.world import World

    redirect.install(2)
    World(cuda=True, noise=0.0).__enter__()  # type: ignore[no-untyped-call]
