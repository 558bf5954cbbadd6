"""Public training scripts at pinned commits: how each is made to run on tiny synthetic data.

No line of theirs is kept here: ``setup`` shrinks models and images by replacing single names and
numbers, and ``stubs`` stand in for packages and weights that would have to be downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DATA = "data"
"""Folder, beside the script, of the synthetic images."""
_OPTIONS = ("-a", "resnet18", "-b", "8", "--epochs", "2", "-p", "1")
_SPAWNED = ("-j", "0", "--multiprocessing-distributed", "--world-size", "1", "--rank", "0",
            "--dist-url", "env://")  # fmt: skip
_SMALL = (("*", r"Crop\(224", "Crop(32"), ("*", r"Resize\(256", "Resize(36"))
_RESNET = (*_SMALL, ("main.py", r"models\.resnet50", "models.resnet18"))
_VAE = """
from types import SimpleNamespace
import torch
class AutoencoderKL(torch.nn.Module):
    @classmethod
    def from_pretrained(cls, name):
        return cls()
    def encode(self, images):
        small = torch.nn.functional.avg_pool2d(images, 8)
        latent = torch.cat([small, small.mean(1, keepdim=True)], 1)
        return SimpleNamespace(latent_dist=SimpleNamespace(sample=latent.clone))
"""


@dataclass(frozen=True)
class Public:
    """One script.

    Attributes:
        name: A short name.
        repository: Owner and name on GitHub.
        commit: The commit that is used.
        folder: The folder of the repository that is run.
        script: The script, relative to ``folder``.
        args: Its arguments.
        setup: A file (or ``*`` for all), a pattern, and what takes its place everywhere.
        stubs: Files that are added, and their text.
        steps: Optimizer steps after which ``check`` ends the run.
    """

    name: str
    repository: str
    commit: str
    script: str
    args: tuple[str, ...]
    folder: str = "."
    setup: tuple[tuple[str, str, str], ...] = ()
    stubs: dict[str, str] = field(default_factory=dict)
    steps: int = 6


SCRIPTS = (
    Public(
        "nanoGPT", "karpathy/nanoGPT", "3adf61e154c3fe3fca428ad6bc3818b27a3b8291", "train.py",
        ("--dataset=tiny", "--compile=False", "--n_layer=1", "--n_head=2", "--n_embd=16",
         "--block_size=8", "--batch_size=4", "--gradient_accumulation_steps=4", "--max_iters=6",
         "--eval_interval=3", "--eval_iters=2", "--dtype=bfloat16"),
    ),
    Public(
        "mae", "facebookresearch/mae", "efb2a8062c206524e35e47d04501ed4f544c0ae8",
        "main_pretrain.py",
        ("--data_path", DATA, "--model", "mae_vit_base_patch16", "--batch_size", "4", "--epochs",
         "2", "--num_workers", "0", "--warmup_epochs", "1", "--blr", "0.1"),
        setup=(
            ("main_pretrain.py", r"assert timm.*", "pass"),
            ("main_pretrain.py", r"optim_factory\.add_weight_decay",
             "optim_factory.param_groups_weight_decay"),
            ("util/misc.py", r"from torch\._six", "from math"),
            ("util/pos_embed.py", r"np\.float\b", "float"),
            ("models_mae.py", r"qk_scale=None, ", ""),
            ("models_mae.py", r"embed_dim=768, depth=12, num_heads=12",
             "embed_dim=48, depth=1, num_heads=4"),
            ("models_mae.py", r"decoder_embed_dim=512, decoder_depth=8, decoder_num_heads=16",
             "decoder_embed_dim=32, decoder_depth=1, decoder_num_heads=4"),
        ),
    ),
    Public(
        "DiT", "facebookresearch/DiT", "ed81ce2229091fd4ecc9a223645f95cf379d582b", "train.py",
        ("--data-path", DATA + "/train", "--model", "DiT-S/8", "--epochs", "3",
         "--global-batch-size", "8", "--num-workers", "0", "--log-every", "2", "--ckpt-every", "2",
         "--num-classes", "3"),
        setup=(("models.py", r"depth=12, hidden_size=384", "depth=1, hidden_size=48"),),
        stubs={"diffusers/__init__.py": "", "diffusers/models.py": _VAE},
    ),
    Public(
        "Swin", "microsoft/Swin-Transformer", "f82860bfb5225915aca09c3227159ee9e1df874d", "main.py",
        ("--cfg", "configs/swin/swin_tiny_patch4_window7_224.yaml", "--data-path", DATA,
         "--batch-size", "4", "--opts", "MODEL.SWIN.EMBED_DIM", "12", "MODEL.SWIN.DEPTHS",
         "[1,1]", "MODEL.SWIN.NUM_HEADS", "[2,2]", "TRAIN.EPOCHS", "2", "DATA.NUM_WORKERS", "0",
         "TRAIN.WARMUP_EPOCHS", "0", "DATA.IMG_SIZE", "56", "PRINT_FREQ", "1"),
        setup=(("data/build.py", r"nb_classes = 1000", "nb_classes = 10"),
               ("lr_scheduler.py", r"t_mul=1\.,", "")),
    ),
    Public(
        "simsiam", "facebookresearch/simsiam", "a7bc1772896d0dad0806c51f0bb6f3b16d290468",
        "main_simsiam.py", (DATA, *_OPTIONS, *_SPAWNED, "--dim", "64", "--pred-dim", "16"),
        setup=_SMALL,
    ),
    Public(
        "barlowtwins", "facebookresearch/barlowtwins", "8e8d284ca0bc02f88b92328e53f9b901e86b4a3c",
        "main.py",
        (DATA, "--workers", "0", "--epochs", "2", "--batch-size", "8", "--projector", "32-32-32",
         "--print-freq", "1"),
        setup=(*_RESNET, ("main.py", r"tcp://localhost:58472", "env://"),
               ("main.py", r"\[2048\]", "[512]")),
    ),
    Public(
        "pytorch-distributed", "tczhangzhi/pytorch-distributed",
        "cd12856420858b14e02873e7d5c8cc7bb5aab5b0", "distributed.py",
        ("--data", DATA, *_OPTIONS),
        setup=(*_SMALL, ("distributed.py", r"default=-1,", "default=int(os.environ['RANK']),"),
               ("distributed.py", r"\.view\(-1\)", ".reshape(-1)")),
    ),
    Public(
        "pytorch-distributed-spawn", "tczhangzhi/pytorch-distributed",
        "cd12856420858b14e02873e7d5c8cc7bb5aab5b0", "multiprocessing_distributed.py",
        ("--data", DATA, *_OPTIONS),
        setup=(*_SMALL, ("multiprocessing_distributed.py", r"tcp://127\.0\.0\.1:23456", "env://"),
               ("multiprocessing_distributed.py", r"\.view\(-1\)", ".reshape(-1)")),
    ),
    Public(
        "minGPT-ddp", "pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8", "main.py",
        ("trainer_config.max_epochs=2", "trainer_config.batch_size=8",
         "trainer_config.data_loader_workers=0", "trainer_config.save_every=1",
         "gpt_config.n_layer=1", "gpt_config.n_head=2", "gpt_config.n_embd=16",
         "data_config.block_size=8", "data_config.truncate=0.00007",
         "data_config.path=data/input.txt"),
        folder="distributed/minGPT-ddp/mingpt",
        setup=(("trainer.py", r"iter % 100", "iter % 1"),
               ("main.py", r"(dataset = CharDataset\(.*\))", r"\1; torch.manual_seed(0)")),
        stubs={"boto3.py": ""},
    ),
)  # fmt: skip
