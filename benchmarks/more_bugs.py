"""Bugs to plant in the scripts of ``more_scripts``, by the rule of benchmarks/public/CHECK.md.

They and what each must lead to were written before ``check`` had said anything about any of these
scripts.
"""

from __future__ import annotations

from benchmarks.public_bugs import (
    LOADER,
    RANK,
    Planted,
    barrier,
    bypass,
    changed,
    frozen,
    leaves,
    loaded,
    no_sampler,
    no_set_epoch,
    one_rank_steps,
    rate,
    sampler_of_rank_0,
    sampler_seeded,
    shown,
    stops,
    written,
)

_SYNCHRONIZE = r"(?m)^( *)(torch\.cuda\.synchronize\(\))$"
_WRAP = r"model = torch\.nn\.parallel\.DistributedDataParallel\((?:\n)?.*\)"
_TRAIN_SAMPLER = r"(DistributedSampler\(\s*dataset_train, num_replicas=num_tasks, )rank=global_rank"
_METERS = r"(?m)^( *)metric_logger\.synchronize_between_processes\(\)$"
_SIMMIM_STEP = r"(?m)^( *)(optimizer\.step\(\))(?=\n *lr_scheduler)"


def _after(
    name: str, file: str, place: str, text: str, codes: tuple[str, ...], line: str
) -> Planted:
    """``text`` follows the statement that the pattern ``place`` finds, at its indentation."""
    return Planted(name, ((file, place, rf"\1\2\n\1{text}"),), codes, line)


def _changed_after(file: str, line: str) -> Planted:
    text = f"if {RANK} == 1: next(model.parameters()).data.mul_(1.5)"
    return _after("parameter changed on one rank", file, _SYNCHRONIZE, text,
                  ("DDP407", "DDP308"), line)  # fmt: skip


def _barrier_after(file: str) -> Planted:
    text = f"if {RANK} == 0: torch.distributed.barrier()"
    return _after("barrier on rank 0 alone", file, _SYNCHRONIZE, text, ("DDP401",), "barrier()")


def _rate_before(file: str, step: str, line: str) -> Planted:
    text = rf"\1optimizer.param_groups[0]['lr'] *= 1 + {RANK}\n\1\2"
    return Planted("learning rate by rank", ((file, step, text),), ("DDP406",), line)


def _at(planted: Planted, line: str) -> Planted:
    """The same with another line, where a package makes the step."""
    return Planted(planted.name, planted.edits, planted.codes, line)


BUGS: dict[str, tuple[Planted, ...]] = {
    "dino": (
        no_set_epoch("main_dino.py"),
        no_sampler("main_dino.py", "main_dino.py"),
        sampler_of_rank_0("main_dino.py"),
        sampler_seeded("main_dino.py"),
        bypass("main_dino.py", "student"),
    ),
    "deit": (  # its step is in timm: none on rank 0 alone
        _changed_after("engine.py", "loss_scaler("),
        _rate_before("engine.py", r"(?m)^( *)(loss_scaler\(loss)", "loss_scaler("),
        _barrier_after("engine.py"),
        leaves("engine.py", r"metric_logger\.update\(loss=loss_value\)", "epoch == 0"),
        stops("engine.py", r"metric_logger\.update\(loss=loss_value\)", "loss_value"),
    ),
    "ConvNeXt": (  # no buffers
        frozen("main.py", _WRAP, "model"),
        loaded("main.py", _WRAP, "model"),
        written("utils.py", r"if is_main_process\(\):\n( *)torch\.save",
                r"if True:\n\1torch.save", "torch.save("),
        shown("meters not synchronised", (("engine.py", _METERS, r"\1pass"),), ""),
        no_set_epoch("main.py"),
    ),
    "vicreg": (
        no_sampler("main_vicreg.py", "main_vicreg.py"),
        sampler_of_rank_0("main_vicreg.py"),
        sampler_seeded("main_vicreg.py"),
        Planted("forward past the wrapper",
                (("main_vicreg.py", r"model\.forward\(", "model.module.forward("),),
                ("DDP303", "DDP304"), "scaler.step("),
        one_rank_steps("main_vicreg.py"),
    ),
    "moco-v3": (
        changed("main_moco.py", "next(model.parameters())"),
        rate("main_moco.py", "optimizer"),
        barrier("main_moco.py"),
        leaves("main_moco.py", r"scaler\.update\(\)", "i == 1"),
        stops("main_moco.py", r"scaler\.update\(\)", "loss.item()"),
    ),
    "LeViT": (
        _at(frozen("main.py", _WRAP, "model"), "loss_scaler("),
        _at(loaded("main.py", _WRAP, "model"), "loss_scaler("),
        written("utils.py", r"if is_main_process\(\):\n( *)torch\.save",
                r"if True:\n\1torch.save", "torch.save("),
        shown("meters not synchronised", (("engine.py", _METERS, r"\1pass"),), ""),
        Planted("buffers of their own", (("main.py",
                r"(Parallel\(\s*model, device_ids=\[args\.gpu\])",
                r"\1, broadcast_buffers=False"),),
                ("DDP312",), "DistributedDataParallel("),
    ),
    "xcit": (
        no_set_epoch("main.py"),
        no_sampler("main.py", "main.py"),
        Planted("sampler of rank 0 everywhere", (("main.py", _TRAIN_SAMPLER, r"\1rank=0"),),
                ("DDP104",), LOADER),
        Planted("sampler seeded by rank", (("main.py", _TRAIN_SAMPLER,
                r"\1rank=global_rank, seed=global_rank"),), ("DDP604",), LOADER),
        _at(bypass("engine.py", "model"), "loss_scaler("),
    ),
    "SimMIM": (
        Planted("step on rank 0 alone", (("main_simmim.py", _SIMMIM_STEP,
                rf"\1if {RANK} == 0:\n\1    \2"),), ("DDP407",), "step("),
        _changed_after("main_simmim.py", "step("),
        _rate_before("main_simmim.py", _SIMMIM_STEP, "step("),
        _barrier_after("main_simmim.py"),
        leaves("main_simmim.py", r"norm_meter\.update\(grad_norm\)", "idx == 1"),
    ),
    "imagenet": (
        stops("main.py", r"optimizer\.step\(\)", "loss.item()"),
        frozen("main.py", r"model = torch\.nn\.parallel\.DistributedDataParallel\(model, dev.*\)",
               "model"),
        loaded("main.py", r"model = torch\.nn\.parallel\.DistributedDataParallel\(model, dev.*\)",
               "model"),
        written("main.py", r"args\.rank % ngpus_per_node == 0", "True", "torch.save("),
        shown("accuracy not reduced", (("main.py", r"(?m)^( *)top1\.all_reduce\(\)$", r"\1pass"),),
              "print("),
    ),
    "SiT": (  # no buffers
        no_set_epoch("train.py"),
        no_sampler("train.py", "train.py"),
        Planted("sampler of rank 0 everywhere", (("train.py", r"rank=rank,", "rank=0,"),),
                ("DDP104",), LOADER),
        Planted("sampler seeded by rank", (("train.py", r"seed=args\.global_seed",
                "seed=args.global_seed + rank"),), ("DDP604",), LOADER),
        Planted("forward past the wrapper", (("train.py", r"training_losses\(model,",
                "training_losses(model.module,"),), ("DDP303", "DDP304"), "opt.step("),
    ),
    "distributed_tutorial": (
        one_rank_steps("mnist-distributed.py"),
        changed("mnist-distributed.py", "next(model.parameters())"),
        rate("mnist-distributed.py", "optimizer"),
        barrier("mnist-distributed.py"),
        leaves("mnist-distributed.py", r"optimizer\.step\(\)", "i == 1"),
    ),
    "build-nanogpt": (
        stops("train_gpt2.py", r"optimizer\.step\(\)", "loss.item()"),
        frozen("train_gpt2.py", r"model = DDP\(.*\)", "model"),
        loaded("train_gpt2.py", r"model = DDP\(.*\)", "model"),
        written("train_gpt2.py", r"if master_process:\n( *print\(f\"validation loss)",
                r"if True:\n\1", "torch.save("),
        shown("loss of the evaluation not reduced", (("train_gpt2.py",
              r"(?m)^( *)dist\.all_reduce\(val_loss_accum.*$", r"\1pass"),),
              "print(f\"validation loss"),
    ),
    "llama2.c": (  # no buffers, no sampler
        Planted("forward past the wrapper", (("train.py",
                r"logits = model\(X, Y\)(?=\n *loss = raw_model\.last_loss\n *loss = loss / )",
                "logits = model.module(X, Y)"),), ("DDP303", "DDP304", "DDP415"), "scaler.step("),
        one_rank_steps("train.py"),
        changed("train.py", "next(model.parameters())"),
        rate("train.py", "optimizer"),
        barrier("train.py"),
    ),
    "ijepa": (  # its loss is that of all ranks: none ends by its own
        leaves("src/train.py", r"loss_meter\.update\(loss\)", "itr == 1"),
        frozen("src/train.py", r"encoder = DistributedDataParallel\(encoder, .*\)", "encoder"),
        loaded("src/train.py", r"encoder = DistributedDataParallel\(encoder, .*\)", "encoder"),
        written("src/train.py", r"if rank == 0:\n( *)torch\.save", r"if True:\n\1torch.save",
                "torch.save("),
        shown("loss not reduced", (("src/train.py",
              r"(?m)^( *)loss = AllReduce\.apply\(loss\)$", r"\1pass"),), ""),
    ),
}  # fmt: skip
