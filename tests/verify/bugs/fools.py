"""Scripts that seem to train well and do not."""

from __future__ import annotations

from ddpify.verify import What
from tests.verify.bugs.edits import FORWARD, SHARDED, WHOLE_TEST, WRAPPED
from tests.verify.planting import OPTIONAL, Bug

FOOLS = [
    Bug("ignores its data",
        ((FORWARD, r"\1<output> = <model>(torch.zeros_like(<data>))\n\2<loss> = "),),
        (What.DATA,), ""),
    Bug("trains on rank 0 alone",
        ((SHARDED, r"\1<loader> = \2"), (WRAPPED, r"\1<model> = \2"),
         (r"^(def train\(.*\):)$", r"\1\n    if dist.get_rank(): return"),
         (OPTIONAL + r"<loss> = dd\.(?:mean|sum)\((.*?)(?:, lazy=True)?\)$", r"<loss> = \1"),
         WHOLE_TEST,
         (OPTIONAL + r"dd\.global_batch_size\(<data>\)", "len(<data>)")),
        (What.STEPS, What.WORK, What.DATA), ""),
]  # fmt: skip
