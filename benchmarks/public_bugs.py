"""Bugs to plant in the public scripts, in their idioms, and the finding that each must lead to.

Each is one or more replacements by patterns. They were written from the scripts' text before
``check`` had run on any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

RANK = "torch.distributed.get_rank()"
LOADER = "DataLoader("
STEP = r"(?m)^( *)((?:\w+\.)*\w+\.step\((?:optimizer)?\))$"


@dataclass(frozen=True)
class Planted:
    """One bug.

    Attributes:
        name: A few words.
        edits: A file, a pattern, and what takes its place the first time.
        codes: The rules that are right.
        line: Part of the line that is right, after planting; empty for any.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]
    codes: tuple[str, ...]
    line: str


def no_set_epoch(file: str) -> Planted:
    """No call of set_epoch in ``file``."""
    edit = (file, r"(?m)^( *)\S*\.set_epoch\(epoch\)$", r"\1pass")
    return Planted("no set_epoch", (edit,), ("DDP102",), LOADER)


def no_sampler(loader: str, epochs: str) -> Planted:
    """No sampler for the first loader in ``loader``; ``epochs`` has the call of set_epoch."""
    epoch = (epochs, r"(?m)^( *)\S*\.set_epoch\(epoch\)$", r"\1pass")
    sampler = (loader, r"([( ])sampler=\w+(?:\(dataset\))?", r"\1sampler=None")
    return Planted("no sampler", (sampler, epoch), ("DDP101",), LOADER)


def sampler_of_rank_0(file: str) -> Planted:
    """Every rank takes rank 0's part."""
    edit = (file, r"DistributedSampler\(([^()]*?)(?:, shuffle=True)?(?:,?\s*num_replicas=[^()]*"
            r"(?:\([^()]*\))?[^()]*)?\)",
            r"DistributedSampler(\1, num_replicas=2, rank=0)")  # fmt: skip
    return Planted("sampler of rank 0 everywhere", (edit,), ("DDP104",), LOADER)


def sampler_seeded(file: str) -> Planted:
    """Another order on each rank."""
    edit = (file, r"DistributedSampler\(", f"DistributedSampler(seed={RANK}, dataset=")
    return Planted("sampler seeded by rank", (edit,), ("DDP604",), LOADER)


def bypass(file: str, call: str) -> Planted:
    """``call`` is a pattern for the wrapped model where it is called."""
    edit = (file, rf"= ({call})\(", r"= \1.module(")
    return Planted("forward past the wrapper", (edit,), ("DDP303", "DDP304"), "step(")


def one_rank_steps(file: str) -> Planted:
    """Rank 0 alone makes the optimizer's step."""
    edit = (file, STEP, rf"\1if {RANK} == 0:\n\1    \2")
    return Planted("step on rank 0 alone", (edit,), ("DDP407",), "step(")


def changed(file: str, parameters: str) -> Planted:
    """Rank 1 changes the first of ``parameters`` after each step."""
    text = rf"\1\2\n\1if {RANK} == 1:\n\1    {parameters}.data.mul_(1.5)"
    return Planted("parameter changed on one rank", ((file, STEP, text),),
                   ("DDP407", "DDP308"), "step(")  # fmt: skip


def rate(file: str, optimizer: str) -> Planted:
    """Each rank has a learning rate of its own."""
    text = rf"\1{optimizer}.param_groups[0]['lr'] *= 1 + {RANK}\n\1\2"
    return Planted("learning rate by rank", ((file, STEP, text),), ("DDP406",), "step(")


def barrier(file: str) -> Planted:
    """Rank 0 alone waits for the others."""
    text = rf"\1\2\n\1if {RANK} == 0:\n\1    torch.distributed.barrier()"
    return Planted("barrier on rank 0 alone", ((file, STEP, text),), ("DDP401",), "barrier()")


def leaves(file: str, after: str, when: str) -> Planted:
    """``after``: a pattern for a statement of the loop over batches, as one group."""
    edit = (file, rf"(?m)^( *)({after})$", rf"\1\2\n\1if {RANK} == 1 and {when}:\n\1    break")
    return Planted("a rank leaves the loop by itself", (edit,), ("DDP402",), "")


def stops(file: str, after: str, loss: str) -> Planted:
    """Each rank would leave the loop by its own ``loss``."""
    edit = (file, rf"(?m)^( *)({after})$", rf"\1\2\n\1if {loss} < -1e9:\n\1    break")
    return Planted("stops by its own loss", (edit,), ("DDP402",), f"if {loss}")


def frozen(file: str, wrap: str, model: str) -> Planted:
    """``wrap``: a pattern for the statement that wraps ``model``."""
    last = f"list({model}.parameters())[-1].requires_grad"
    text = rf"\1{last} = False\n\1\2\n\1{last} = True"
    return Planted("frozen when it was wrapped", ((file, rf"(?m)^( *)({wrap})$", text),),
                   ("DDP306",), "step(")  # fmt: skip


def loaded(file: str, wrap: str, model: str) -> Planted:
    """Rank 0 gets other weights after ``wrap``, a pattern for the statement that wraps."""
    text = (rf"\1\2\n\1if {RANK} == 0:\n\1    "
            rf"list({model}.parameters())[-1].data.fill_(0.5)")  # fmt: skip
    return Planted("weights loaded on rank 0 after the wrap",
                   ((file, rf"(?m)^( *)({wrap})$", text),), ("DDP308",), "step(")  # fmt: skip


def written(file: str, guard: str, opened: str, line: str) -> Planted:
    """``guard`` is the pattern of a condition, and ``opened`` what takes its place."""
    return Planted("written by all", ((file, guard, opened),), ("DDP501",), line)


def shown(name: str, edits: tuple[tuple[str, str, str], ...], line: str) -> Planted:
    """A number of rank 0's own is shown."""
    return Planted(name, edits, ("DDP405",), line)


_WRAP = r"model = torch\.nn\.parallel\.DistributedDataParallel\(.*\)"
_TCZ_WRAP = r"model = torch\.nn\.parallel\.DistributedDataParallel\(model,\n.*\)"


def _tcz(file: str) -> tuple[Planted, ...]:
    loss = "loss.item()"
    return (
        no_set_epoch(file),
        sampler_of_rank_0(file),
        bypass(file, "model"),
        one_rank_steps(file),
        loaded(file, _TCZ_WRAP, "model"),
        written(file, r"if args\.local_rank == 0", "if True", "torch.save("),
        shown("loss not reduced", ((file, r"reduced_loss = reduce_mean\(.*\)",
                                    "reduced_loss = loss"),), "print("),
        stops(file, r"optimizer\.step\(\)", loss),
        Planted("buffers of their own", ((file, r"(?s)(Parallel\(model,\s*device_ids=\[local_rank\]"
                 r")", r"\1, broadcast_buffers=False"),), ("DDP312",), "DistributedDataParallel("),
    )  # fmt: skip


def _joint(file: str, model: str, wrap: str) -> tuple[Planted, ...]:
    return (
        no_set_epoch(file),
        sampler_seeded(file),
        one_rank_steps(file),
        rate(file, "optimizer"),
        frozen(file, wrap, model),
        barrier(file),
    )


BUGS: dict[str, tuple[Planted, ...]] = {
    "nanoGPT": (
        Planted("no exchange in accumulation",
                (("train.py", r"\(micro_step == gradient_accumulation_steps - 1\)",
                  "False"),), ("DDP415", "DDP303"), "scaler.step("),
        Planted("exchange at the first micro-step",
                (("train.py", r"micro_step == gradient_accumulation_steps - 1",
                  "micro_step == 0"),), ("DDP415",), "scaler.step("),
        Planted("same seed on every rank", (("train.py", r"1337 \+ seed_offset", "1337"),),
                ("DDP106", "DDP601"), ""),
        one_rank_steps("train.py"),
        rate("train.py", "optimizer"),
        changed("train.py", "next(model.parameters())"),
        written("train.py", r"if iter_num % eval_interval == 0 and master_process",
                "if iter_num % eval_interval == 0", "torch.save("),
        stops("train.py", r"local_iter_num \+= 1", "loss.item()"),
        barrier("train.py"),
    ),
    "mae": (
        no_set_epoch("main_pretrain.py"),
        no_sampler("main_pretrain.py", "main_pretrain.py"),
        Planted("sampler of rank 0 everywhere",
                (("main_pretrain.py", r"rank=global_rank", "rank=0"),), ("DDP104",), LOADER),
        bypass("engine_pretrain.py", "model"),
        one_rank_steps("util/misc.py"),
        changed("util/misc.py", "optimizer.param_groups[1]['params'][0]"),
        written("util/misc.py", r"if is_main_process\(\)", "if True", "torch.save("),
        shown("loss not reduced", (("engine_pretrain.py", r"misc\.all_reduce_mean\(loss_value\)",
                                    "loss_value"),), "add_scalar('train_loss'"),
        shown("meters not synchronised", (("engine_pretrain.py",
              r"(?m)^( *)metric_logger\.synchronize_between_processes\(\)$", r"\1pass"),), ""),
    ),
    "DiT": (
        no_set_epoch("train.py"),
        Planted("sampler of rank 0 everywhere", (("train.py", r"rank=rank", "rank=0"),),
                ("DDP104",), LOADER),
        Planted("sampler seeded by rank", (("train.py", r"seed=args\.global_seed",
                "seed=args.global_seed + rank"),), ("DDP604",), LOADER),
        Planted("forward past the wrapper", (("train.py", r"training_losses\(model,",
                "training_losses(model.module,"),), ("DDP303", "DDP304"), "opt.step("),
        shown("average left out", (("train.py", r"(?m)^( *)dist\.all_reduce\(avg_loss.*$",
                                    r"\1pass"),), "logger.info(f\"(step="),
        written("train.py", r"if rank == 0:\n( *)checkpoint = ", r"if True:\n\1checkpoint = ",
                "torch.save("),
        Planted("learning rate changed on rank 1", (("train.py",
                r"(?m)^( {12})(update_ema\(ema, model\.module\))$",
                r"\1if rank == 1: opt.param_groups[0]['lr'] = 0.5\n"
                r"\1\2"),), ("DDP406",), "opt.step("),
        Planted("barrier on rank 0 alone", (("train.py", r"(?m)^( *)dist\.barrier\(\)$",
                r"\1if rank == 0: dist.barrier()"),), ("DDP401",), "dist.barrier()"),
        leaves("train.py", r"log_steps \+= 1", "log_steps == 2"),
    ),
    "Swin": (
        no_set_epoch("main.py"),
        no_sampler("data/build.py", "main.py"),
        Planted("sampler of rank 0 everywhere", (("data/build.py", r"rank=global_rank",
                "rank=0"),), ("DDP104",), LOADER),
        bypass("main.py", "model"),
        one_rank_steps("utils.py"),
        frozen("main.py", _WRAP, "model"),
        Planted("written by all", (("main.py", r"if dist\.get_rank\(\) == 0 and \(",
                "if ("),), ("DDP501",), "torch.save("),
        Planted("loss and accuracy not reduced", (("main.py",
                r"= reduce_tensor\(acc1\)", "= acc1"),), ("DDP405",), "logger.info("),
        leaves("main.py", r"loss_meter\.update\(loss\.item\(\), targets\.size\(0\)\)", "idx == 1"),
    ),
    "simsiam": (
        *_joint("main_simsiam.py", "model", _WRAP),
        bypass("main_simsiam.py", "model"),
        written("main_simsiam.py", r"args\.rank % ngpus_per_node == 0", "True", "torch.save("),
        stops("main_simsiam.py", r"optimizer\.step\(\)", "loss.item()"),
    ),
    "barlowtwins": (
        no_set_epoch("main.py"),
        sampler_of_rank_0("main.py"),
        no_sampler("main.py", "main.py"),
        Planted("forward past the wrapper", (("main.py", r"model\.forward\(",
                "model.module.forward("),), ("DDP303", "DDP304"), "scaler.step("),
        Planted("without SyncBatchNorm, buffers of their own", (
            ("main.py", r"(?m)^( *)model = nn\.SyncBatchNorm.*$", r"\1pass"),
            ("main.py", r"device_ids=\[gpu\]", "device_ids=[gpu], broadcast_buffers=False")),
                ("DDP312",), "DistributedDataParallel("),
        rate("main.py", "optimizer"),
        Planted("written by all", (("main.py", r"if args\.rank == 0:\n( *)# save checkpoint",
                r"if True:\n\1# save checkpoint"),), ("DDP501",), "torch.save("),
        leaves("main.py", r"scaler\.update\(\)", "step == 1"),
        barrier("main.py"),
    ),
    "pytorch-distributed": _tcz("distributed.py"),
    "pytorch-distributed-spawn": _tcz("multiprocessing_distributed.py"),
    "minGPT-ddp": (
        Planted("no set_epoch", (("trainer.py", r"(?m)^( *)\S*\.set_epoch\(epoch\)$", r"\1pass"),),
                ("DDP102",), LOADER),
        no_sampler("trainer.py", "trainer.py"),
        Planted("sampler seeded by rank", (("trainer.py", r"DistributedSampler\(dataset\)",
                "DistributedSampler(dataset, seed=self.global_rank)"),), ("DDP604",), LOADER),
        bypass("trainer.py", r"self\.model"),
        Planted("step on rank 0 alone", (("trainer.py", r"(?m)^( *)(self\.scaler\.step\(.*\))$",
                r"\1if self.global_rank == 0:\n\1    \2"),), ("DDP407",), "scaler.step("),
        Planted("written by all", (("trainer.py", r"if self\.local_rank == 0 and ", "if "),),
                ("DDP501",), "torch.save("),
        shown("local loss without its rank", (("trainer.py", r"\[RANK\{self\.global_rank\}\] ",
                                               ""),), "print("),
        Planted("wrapped before moved weights are loaded on rank 0", (("trainer.py",
                r"(?m)^( *)(self\.model = DDP\(.*)$",
                r"\1\2\n\1if self.global_rank == 0: list(self.model.parameters())[-1].data.add_(1)"
                ),), ("DDP308",), "step("),
    ),
}  # fmt: skip
