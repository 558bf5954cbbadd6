"""Bugs in optimizers, schedules and weights."""

from __future__ import annotations

from ddpify.verify import What
from tests.verify.bugs.edits import ON_RANK_0, PER_BATCH_SCHEDULE, STEP, WRAPPED
from tests.verify.planting import Bug

UPDATE_BUGS = [
    Bug("scheduler on rank 0", ((r"^( *)(<scheduler>\.step\(\))", ON_RANK_0 + r"\2"),),
        (What.LEARNING_RATE,), "DDP407"),
    Bug("optimizer on rank 0", ((r"^( *)(<optimizer>\.step\(\))", ON_RANK_0 + r"\2"),),
        (What.STEPS,), "DDP407"),
    Bug("zero_grad on rank 0",
        ((r"^( *)((?:<optimizer>|<model>)\.zero_grad\(.*\))", ON_RANK_0 + r"\2"),),
        (What.GRADIENT, What.LOSS), "DDP407"),
    Bug("two steps a batch", ((STEP, r"\1<optimizer>.step()\n\1<optimizer>.step()"),),
        (What.STEPS,), "DDP407"),
    Bug("plateau on a number of one rank",
        ((r"<scheduler>\.step\(1\.0 / \(1 \+ epoch\)\)",
          "<scheduler>.step(epoch if dist.get_rank() else 1.0 / (1 + epoch))"),),
        (What.LEARNING_RATE,), "DDP406",
        before=((r"<scheduler> = StepLR\(.*\)",
                 "<scheduler> = optim.lr_scheduler.ReduceLROnPlateau(<optimizer>, patience=0)"),
                (r"^( *)<test>\n *<scheduler>\.step\(\)",
                 r"\1<test>\n\1<scheduler>.step(1.0 / (1 + epoch))"))),
    Bug("schedule by a loader that is split",
        ((r"2 \* len\(<loader>\)", "2 * (len(<loader>) // dist.get_world_size())"),),
        (What.LEARNING_RATE,), "DDP418", before=PER_BATCH_SCHEDULE),
    Bug("learning rate times the world size",
        ((r"^( *<optimizer> = .*lr=)([\w.\-]+)", r"\1\2 * dist.get_world_size()"),),
        (What.LEARNING_RATE,), "DDP110"),
    Bug("weights changed on one rank after wrapping",
        ((WRAPPED, r"\1<model> = dd.wrap(\2)\n"
          r"\1if dist.get_rank(): [p.data.mul_(1.01) for p in <model>.parameters()]"),),
        (What.START,), "DDP308"),
]  # fmt: skip
