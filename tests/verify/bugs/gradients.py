"""Bugs in losses, and in how gradients are averaged."""

from __future__ import annotations

from ddpify.verify import What
from tests.verify.bugs.edits import (
    ACCUMULATED,
    BACKWARD,
    DDP_MODEL,
    FORWARD,
    PLAIN_KEYS,
    SUMMED,
    WITH_BATCH_NORM,
    WRAPPED,
)
from tests.verify.planting import Bug

GRADIENT_BUGS = [
    Bug("BatchNorm by rank", ((WRAPPED, r"\1<model> = dd.wrap(\2, sync_batchnorm=False)"),),
        (What.LOSS, What.GRADIENT), "DDP312", before=(WITH_BATCH_NORM,)),
    Bug("BatchNorm by rank, in the script's own layers",
        ((WRAPPED, r"\1<model> = dd.wrap(\2, sync_batchnorm=False)"),),
        (What.LOSS, What.GRADIENT), "DDP312", needs="BatchNorm"),
    Bug("loss over the world size",
        ((BACKWARD, r"\1(<loss> / dist.get_world_size()).backward()"),),
        (What.LOSS, What.GRADIENT), "DDP409"),
    Bug("loss not over the accumulated batches",
        ((r"<loss> / 4", "<loss>"),),
        (What.LOSS, What.GRADIENT), "DDP416", before=ACCUMULATED),
    Bug("sum loss", ((r"<loss> = dd\.sum\((.*?)(?:, lazy=True)?\)$", r"<loss> = \1"),),
        (What.LOSS, What.GRADIENT), "DDP408", before=SUMMED),
    Bug("loss over valid tokens",
        ((r"<loss> = dd\..*$", "keep = target.view(-1) != 0; <loss> = "
          "(F.nll_loss(<output>, target, reduction='none') * keep).sum() / keep.sum()"),),
        (What.LOSS, What.GRADIENT), "DDP408",
        before=((r"<loss> = F\.nll_loss\(<output>, target\)",
                 "keep = target.view(-1) != 0; <loss> = "
                 "(F.nll_loss(<output>, target, reduction='none') * keep).sum() / keep.sum()"),)),
    Bug("loss over valid tokens, unweighted",
        ((r"^( *<loss> = )dd\.mean\((.*), weight=.*\)$", r"\1\2"),),
        (What.LOSS, What.GRADIENT), "DDP408", needs="a loss with weights"),
    Bug("forward past the wrapper", (DDP_MODEL, PLAIN_KEYS,
        (FORWARD, r"\1<output> = <model>.module(<data>)\n\2<loss> = ")),
        (What.LOSS, What.GRADIENT), "DDP303"),
    Bug("a reference from before wrapping", ((WRAPPED, r"\1<model> = \2; wrapped = DDP(<model>)"),),
        (What.LOSS, What.GRADIENT), "DDP304"),
    Bug("frozen when it was wrapped", (PLAIN_KEYS,
        (WRAPPED, r"\1<model> = \2; first = next(<model>.parameters()).requires_grad_(False)\n"
         r"\1<model> = DDP(<model>); first.requires_grad_(True)")),
        (What.GRADIENT,), "DDP306"),
    Bug("parameters outside the wrapper",
        ((WRAPPED, r"\1<model> = \2; name, layer = list(<model>.named_children())[-1]\n"
          r"\1setattr(<model>, name, DDP(layer))"),),
        (What.GRADIENT,), "DDP305"),
    Bug("two backwards on one forward", (DDP_MODEL, PLAIN_KEYS,
        (BACKWARD, r"\1(<loss> / 2).backward(retain_graph=True)\n\1(<loss> / 2).backward()")),
        (What.GRADIENT, What.LOSS), "DDP310"),
    Bug("cast after wrapping", (PLAIN_KEYS, (WRAPPED, r"\1<model> = DDP(\2).double()")),
        (What.DEVICE,), "DDP302"),
    Bug("optimizer made before sharding",
        ((WRAPPED, r"\1<model> = \2"),
         (r"^( *)(<optimizer> = .*)$",
          r"\1\2\n\1from torch.distributed.fsdp import fully_shard\n"
          r"\1from torch.distributed.device_mesh import init_device_mesh\n"
          r"\1fully_shard(<model>, mesh=init_device_mesh('cpu', (dist.get_world_size(),)))"),
         (r"dd\.save\(.*\)", "<model>.state_dict()")),
        (What.GRADIENT, What.STEPS), "DDPF01"),
]  # fmt: skip
