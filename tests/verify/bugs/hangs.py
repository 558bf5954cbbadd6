"""Ranks that do not take part in the same collectives."""

from __future__ import annotations

from ddpify.verify import What
from tests.verify.bugs.edits import (
    BACKWARD,
    DDP_MODEL,
    ON_RANK_0,
    OWN_EVALUATION,
    PLAIN_KEYS,
    STEP,
    WITH_BATCH_NORM,
)
from tests.verify.planting import Bug

HANGS = [
    Bug("one rank stops early",
        ((STEP, r"\1<optimizer>.step()\n"
          r"\1if <late> and dist.get_rank() == 1: <leave>"),),
        (What.HANG, What.COLLECTIVE), "DDP402"),
    Bug("one rank skips a batch", (DDP_MODEL, PLAIN_KEYS,
        (BACKWARD, r"\1if <late> and dist.get_rank() == 1: continue\n\1<loss>.backward()")),
        (What.HANG, What.COLLECTIVE), "DDP402"),
    Bug("barrier on rank 0",
        ((r"^( *)(<test>)", r"\1\2\n" + ON_RANK_0 + "dist.barrier()"),),
        (What.HANG, What.COLLECTIVE), "DDP401"),
    Bug("evaluation on rank 0, with its sums", ((r"^( *)(<test>)", ON_RANK_0 + r"\2"),),
        (What.HANG, What.COLLECTIVE), "DDP401"),
    Bug("evaluation on rank 0", (DDP_MODEL, PLAIN_KEYS, OWN_EVALUATION,
        (r"<test_loader> = dd\.shard\((.*)\)$", r"<test_loader> = \1"),
        (r"^( *)(<test>)", ON_RANK_0 + r"\2")),
        (What.HANG, What.COLLECTIVE), "DDP403", before=(WITH_BATCH_NORM,)),
]  # fmt: skip
