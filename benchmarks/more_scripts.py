"""More public scripts, chosen by the rule of benchmarks/public/CHECK.md, and made to run."""

from __future__ import annotations

from benchmarks.public_scripts import _OPTIONS, _SMALL, _SPAWNED, _VAE, DATA, Public

_TIMM = r"create_model\(\s*args\.model,"
_VIT = (r"embed_dim=\d+, depth=12, num_heads=\d+", "embed_dim=24, depth=1, num_heads=2")
_LEGACY = ("--batch-size", "4", "--epochs", "2", "--data-path", DATA, "--num_workers", "0",
           "--output_dir", "out", "--warmup-epochs", "0", "--no-repeated-aug")  # fmt: skip
_MNIST = """
import torch, torchvision
class MNIST(torch.utils.data.Dataset):
    def __init__(self, root, train=True, transform=None, download=False):
        draw = torch.Generator().manual_seed(3)
        self.images = torch.rand(48, 1, 28, 28, generator=draw)
    def __len__(self):
        return 48
    def __getitem__(self, at):
        return self.images[at], at % 10
torchvision.datasets.MNIST = MNIST
"""
_TOKENS = """
import numpy as np
def get_encoding(name):
    return None
"""
_SHARDS = """
import os, numpy
os.makedirs('{folder}', exist_ok=True)
for at in range(3):
    draw = numpy.random.default_rng(at)
    {write}
"""

_IJEPA = """
data: {batch_size: 4, color_jitter_strength: 0.0, crop_scale: [0.3, 1.0], crop_size: 64,
       image_folder: "", num_workers: 0, pin_mem: true, root_path: data,
       use_color_distortion: false,
       use_gaussian_blur: false, use_horizontal_flip: false}
logging: {folder: ., write_tag: jepa}
mask: {allow_overlap: false, aspect_ratio: [0.75, 1.5], enc_mask_scale: [0.85, 1.0], min_keep: 1,
       num_enc_masks: 1, num_pred_masks: 2, patch_size: 8, pred_mask_scale: [0.15, 0.2]}
meta: {copy_data: false, load_checkpoint: false, model_name: vit_tiny, pred_depth: 1,
       pred_emb_dim: 24, read_checkpoint: null, use_bfloat16: true}
optimization: {ema: [0.9, 1.0], epochs: 2, final_lr: 1.0e-4, final_weight_decay: 0.4,
               ipe_scale: 1.0, lr: 0.01, start_lr: 0.005, warmup: 1, weight_decay: 0.04}
"""

SCRIPTS = (
    Public(
        "dino", "facebookresearch/dino", "7c446df5b9f45747937fb0d72314eb9f7b66930a",
        "main_dino.py",
        ("--data_path", DATA + "/train", "--arch", "vit_tiny", "--batch_size_per_gpu", "4",
         "--epochs", "2", "--num_workers", "0", "--out_dim", "32", "--local_crops_number", "1",
         "--warmup_epochs", "1", "--warmup_teacher_temp_epochs", "0", "--use_fp16", "false",
         "--freeze_last_layer", "0", "--lr", "0.05"),
        setup=(("vision_transformer.py", r"embed_dim=192, depth=12, num_heads=3",
                "embed_dim=24, depth=1, num_heads=2"),
               ("main_dino.py", r"Crop\(224", "Crop(32"), ("main_dino.py", r"Crop\(96", "Crop(16"),
               ("vision_transformer.py", r"hidden_dim=2048, bottleneck_dim=256",
                "hidden_dim=32, bottleneck_dim=16"),
               ("main_dino.py", r"torch\.hub\.list\([^()]*\)", "[]")),
    ),
    Public(
        "deit", "facebookresearch/deit", "7e160fe43f0252d17191b71cbb5826254114ea5b", "main.py",
        (*_LEGACY, "--model", "deit_tiny_patch16_224", "--input-size", "48"),
        setup=(("main.py", _TIMM, "models.__dict__[args.model]("),
               ("main.py", r"drop_block_rate=None,", ""), ("models.py", *_VIT),
               ("augment.py", r"_pil_interp, ", ""),
               ("engine.py", r"print_freq = 10", "print_freq = 1")),
    ),
    Public(
        "ConvNeXt", "facebookresearch/ConvNeXt", "048efcea897d999aed302f2639b6270aedf8d4c8",
        "main.py",
        ("--data_path", DATA, "--batch_size", "4", "--epochs", "2", "--num_workers", "0",
         "--model", "convnext_tiny", "--output_dir", "out", "--warmup_epochs", "0",
         "--input_size", "32", "--log_dir", "log", "--lr", "0.01"),
        setup=(("main.py", _TIMM, "models.convnext.__dict__[args.model]("),
               ("utils.py", r"from torch\._six", "from math"),
               ("optim_factory.py", r"from timm\.optim\.(novograd|nvnovograd) .*", "pass"),
               ("models/convnext.py", r"depths=\[3, 3, 9, 3\], dims=\[96, 192, 384, 768\]",
                "depths=[1, 1, 1, 1], dims=[8, 8, 8, 16]"),
               ("engine.py", r"print_freq = 10", "print_freq = 1")),
    ),
    Public(
        "vicreg", "facebookresearch/vicreg", "4e12602fd495af83efd1631fbe82523e6db092e0",
        "main_vicreg.py",
        ("--data-dir", DATA, "--exp-dir", "exp", "--arch", "resnet34", "--mlp", "16-16-16",
         "--epochs", "2", "--batch-size", "8", "--num-workers", "0", "--log-freq-time", "0"),
        setup=(("augmentations.py", r"224", "32"),
               ("main_vicreg.py", r"device_ids=\[gpu\]", "device_ids=[args.gpu]"),
               ("resnet.py", r"\[3, 4, 6, 3\]", "[1, 1, 1, 1]")),
    ),
    Public(
        "moco-v3", "facebookresearch/moco-v3", "c349e6e24f40d3fedb22d973f92defa4cedf37a7",
        "main_moco.py",
        (DATA, "-a", "vit_small", "-b", "8", "--epochs", "2", "-p", "1", *_SPAWNED,
         "--moco-dim", "16", "--moco-mlp-dim", "32", "--warmup-epochs", "0", "--lr", "3"),
        setup=(*_SMALL, ("vits.py", r"embed_dim=384, depth=12, num_heads=12",
                         "img_size=32, embed_dim=48, depth=1, num_heads=4"),
               ("vits.py", r"self\.num_tokens", "self.num_prefix_tokens"),
               ("vits.py", r"timm\.models\.layers(\.helpers)?", "timm.layers"),
               ("moco/builder.py", r"nn\.CrossEntropyLoss\(\)\(", "nn.functional.cross_entropy(")),
    ),
    Public(
        "LeViT", "facebookresearch/LeViT", "3772b8e7517b900330ee1f46e11b0ae917dae323", "main.py",
        (*_LEGACY, "--model", "LeViT_128S", "--input-size", "64", "--distillation-type", "none"),
        setup=(("main.py", _TIMM, "levit.__dict__[args.model]("),
               ("levit.py", r"'128_256_384', 'D': 16, 'N': '4_6_8', 'X': '2_3_4'",
                "'8_16_16', 'D': 4, 'N': '2_2_2', 'X': '1_1_1'"),
               ("levit.py", r"img_size=224", "img_size=64"),
               ("engine.py", r"print_freq = 10", "print_freq = 1")),
    ),
    Public(
        "xcit", "facebookresearch/xcit", "82f5291f412604970c39a912586e008ec009cdca", "main.py",
        (*_LEGACY, "--model", "xcit_tiny_12_p16", "--input-size", "32"),
        setup=(("main.py", _TIMM, "xcit.__dict__[args.model]("),
               ("main.py", r",\s*drop_block_rate=None", ""),
               ("xcit.py", r"embed_dim=192, depth=12, num_heads=4",
                "img_size=32, embed_dim=16, depth=1, num_heads=2"),
               ("engine.py", r"print_freq = 10", "print_freq = 1")),
    ),
    Public(
        "SimMIM", "microsoft/SimMIM", "d3e29bcac950b83edc34ca33fe4404f38309052c",
        "main_simmim.py",
        ("--cfg", "configs/vit_base__800ep/simmim_pretrain__vit_base__img224__800ep.yaml",
         "--data-path", DATA + "/train", "--batch-size", "4", "--amp-opt-level", "O0", "--opts",
         "MODEL.VIT.EMBED_DIM", "16", "MODEL.VIT.DEPTH", "1", "MODEL.VIT.NUM_HEADS", "2",
         "TRAIN.EPOCHS", "2", "DATA.NUM_WORKERS", "0", "TRAIN.WARMUP_EPOCHS", "0",
         "DATA.IMG_SIZE", "64", "PRINT_FREQ", "1", "TRAIN.BASE_LR", "0.01"),
        setup=(("main_simmim.py", r"required=True, help='local rank",
                "default=int(os.environ['LOCAL_RANK']), help='local rank"),
               ("data/data_finetune.py", r"from timm\.data\.transforms import _pil_interp",
                "pass")),
    ),
    Public(
        "imagenet", "pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8", "main.py",
        (DATA, *_OPTIONS, *_SPAWNED), folder="imagenet",
        setup=(*_SMALL,),
    ),
    Public(
        "SiT", "willisma/SiT", "947f95bd3a510e9af441d38c1e9f72e0eee873c5", "train.py",
        ("--data-path", DATA + "/train", "--model", "SiT-S/8", "--epochs", "2",
         "--global-batch-size", "8", "--num-workers", "0", "--log-every", "1", "--ckpt-every", "2",
         "--num-classes", "3"),
        setup=(("models.py", r"depth=12, hidden_size=384", "depth=1, hidden_size=48"),
               ("train.py", r"os\.environ\[\"(\w+)\"\]", r'os.environ.get("\1")'),
               ("train.py", r"\[device\]\)", "[device])")),
        stubs={"diffusers/__init__.py": "", "diffusers/models.py": _VAE,
               "torchdiffeq.py": "odeint = None", "wandb.py": "log = print"},
    ),
    Public(
        "distributed_tutorial", "yangkky/distributed_tutorial",
        "24467967c1c719110c33fccca69353ad8e5ae2e4", "mnist-distributed.py", ("-g", "2"),
        folder="src",
        setup=(("mnist-distributed.py", r"os\.environ\['MASTER_\w+'\] = .*", "pass"),
               ("mnist-distributed.py", r"batch_size = 100", "batch_size = 8"),
               ("mnist-distributed.py", r"% 100 ==", "% 1 =="),
               ("mnist-distributed.py", r"import torchvision\n",
                "import torchvision\nimport mnist_data\n")),
        stubs={"apex/__init__.py": "amp = None", "mnist_data.py": _MNIST,
               "apex/parallel.py": "DistributedDataParallel = None"},
    ),
    Public(
        "build-nanogpt", "karpathy/build-nanogpt", "6104ab1b53920f6e2159749676073ff7d815c1fa",
        "train_gpt2.py", (),
        setup=(("train_gpt2.py", r"524288", "128"), ("train_gpt2.py", r"B = 64", "B = 4"),
               ("train_gpt2.py", r"T = 1024", "T = 8"),
               ("train_gpt2.py", r"GPTConfig\(vocab_size=50304\)",
                "GPTConfig(vocab_size=32, n_layer=1, n_head=2, n_embd=16, block_size=16)"),
               ("train_gpt2.py", r"(warmup_steps|max_steps) = \d+.*", r"\1 = 6"),
               ("train_gpt2.py", r"steps == 250", "steps == 3"),
               ("train_gpt2.py", r"% 250 == 0", "% 3 == 0"),
               ("train_gpt2.py", r"% 5000 == 0", "% 3 == 0"),
               ("train_gpt2.py", r"\(not use_compile\)", "False")),
        stubs={"tiktoken.py": _TOKENS, "hellaswag.py": "render_example = iterate_examples = None",
               "make.py": _SHARDS.format(folder="edu_fineweb10B", write=(
                   "numpy.save(f'edu_fineweb10B/{\"val\" if at == 2 else \"train\"}_{at}.npy', "
                   "draw.integers(0, 32, 700))"))},
    ),
    Public(
        "llama2.c", "karpathy/llama2.c", "350e04fe35433e6d2941dce5a1f53308f87058eb", "train.py",
        ("--compile=False", "--vocab_source=custom", "--vocab_size=32", "--dim=16", "--n_layers=1",
         "--n_heads=2", "--n_kv_heads=2", "--batch_size=4", "--max_seq_len=8", "--max_iters=6",
         "--warmup_iters=2", "--eval_interval=3", "--eval_iters=2", "--dtype=float32",
         "--learning_rate=0.01"),
        setup=(("tinystories.py", r"(import sentencepiece.*|from tokenizer import.*)", "pass"),),
        stubs={"make.py": _SHARDS.format(folder="data/tok32", write=(
            "draw.integers(0, 32, 700, dtype=numpy.uint16).tofile(f'data/tok32/{at}.bin')"))},
    ),
    Public(
        "ijepa", "facebookresearch/ijepa", "52c1ae95d05f743e000e8f10a1f3a79b10cff048", "main.py",
        ("--fname", "configs.yaml", "--devices", "cuda:0", "cuda:1"),
        setup=(("src/models/vision_transformer.py", r"embed_dim=192, depth=12, num_heads=3",
                "embed_dim=24, depth=1, num_heads=2"),
               ("src/train.py", r"log_freq = 10", "log_freq = 1")),
        stubs={"configs.yaml": _IJEPA},
    ),
)  # fmt: skip
