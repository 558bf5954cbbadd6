"""Frameworks that distribute the training themselves, by what a file imports.

``covers`` names the groups of pitfalls that a framework takes care of; ``ALL`` covers everything
but what a framework cannot know.
"""

from __future__ import annotations

import re

from ddpify.records import record

ALL = frozenset(
    {"data", "device", "wrapping", "synchronisation", "checkpoint", "launch", "rng", "performance"}
)
_MOST = ALL - {"rng"}


@record
class Framework:
    """One framework: its name, its import prefixes, and the groups of rules it makes moot."""

    name: str
    imports: tuple[str, ...]
    covers: frozenset[str] = ALL


# What makes or runs environments that an agent acts in.
ENVIRONMENTS = (
    "gym", "gymnasium", "pettingzoo", "procgen", "torchrl.envs", "torchrl.collectors", "dm_control",
    "minigrid", "gym_minigrid", "gym_super_mario_bros", "ale_py", "atari_py", "retro", "vizdoom",
    "unityagents", "mlagents_envs", "vmas", "brax.envs",
)  # fmt: skip
FRAMEWORKS = (
    Framework("Lightning Fabric", ("lightning.fabric", "lightning.Fabric", "lightning_fabric")),
    Framework("PyTorch Lightning", ("pytorch_lightning", "lightning")),
    Framework("Accelerate", ("accelerate",)),
    Framework("the Hugging Face Trainer", (
        "transformers.Trainer", "transformers.Seq2SeqTrainer", "transformers.trainer",
        "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments",
    )),
    Framework("TRL", ("trl",)),
    Framework("DeepSpeed", ("deepspeed",)),
    Framework("Horovod", ("horovod",)),
    Framework("BytePS", ("byteps",)),
    Framework("SageMaker", ("smdistributed",)),
    Framework("Ray Train", ("ray.train", "ray.air", "ray.util.sgd")),
    Framework("Composer", ("composer",)),
    Framework("Ignite", ("ignite",)),
    Framework("MMEngine", ("mmengine", "mmcv")),
    Framework("detectron2", ("detectron2",)),
    Framework("Catalyst", ("catalyst",)),
    Framework("fastai", ("fastai",)),
    Framework("Keras", (
        "keras.Model", "keras.Sequential", "keras.models", "keras.layers", "keras.applications",
    )),
    Framework("torch_xla", ("torch_xla",)),
    Framework("Megatron", ("megatron", "torchtitan", "nemo", "fairscale.nn.model_parallel")),
    Framework("Colossal-AI", ("colossalai",)),
    Framework("BMTrain", ("bmtrain",)),
    Framework("FairSeq", ("fairseq",)),
    Framework("ClassyVision", ("classy_vision", "vissl")),
    Framework("ddpify", ("ddpify.runtime", "ddpify_runtime"), covers=frozenset()),
    Framework("environments", ENVIRONMENTS),
)  # fmt: skip
_FIRST_NAMES = frozenset(name.partition(".")[0] for one in FRAMEWORKS for name in one.imports)
_NOT_TRAINERS = ("ddpify", "environments")
_TENSOR_PARALLEL = (
    "parallelize_module",
    "init_device_mesh",
    "pipelining",
    "tensor.parallel",
    "rpc",
)
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(.+)|import[ \t]+(.+))", re.M)


def imported_names(text: str) -> set[str]:
    """Qualified names that a file imports at any level, read from its text."""
    found: set[str] = set()
    for module, names, plain in _IMPORT.findall(text):
        if module:
            found.add(module)
            found |= {f"{module}.{part}" for part in _split(_continued(text, names))}
        else:
            found |= set(_split(plain))
    return found


def _split(names: str) -> list[str]:
    return [part.split(" as ")[0].strip() for part in names.strip("() \t\\").split(",")]


def _continued(text: str, names: str) -> str:
    """The names of an import in parentheses that goes on over lines."""
    if not names.lstrip().startswith("(") or ")" in names:
        return names.split("#")[0]
    start = text.find(names)
    lines = text[start : text.find(")", start)].splitlines()
    return ",".join(line.split("#")[0].rstrip(", ") for line in lines)


def training_framework(name: str) -> str | None:
    """The framework that a qualified name belongs to, if it runs the training itself."""
    if name.partition(".")[0] not in _FIRST_NAMES:
        return None
    for framework in FRAMEWORKS:
        if framework.name not in _NOT_TRAINERS and _matches(name, framework.imports):
            return framework.name
    return None


def frameworks_of(text: str) -> list[Framework]:
    """The frameworks that a file imports, those that run tensor parallelism included."""
    names = imported_names(text)
    likely = [name for name in names if name.partition(".")[0] in _FIRST_NAMES]
    found = [
        framework
        for framework in FRAMEWORKS
        if any(_matches(name, framework.imports) for name in likely)
    ]
    if any(part in name for name in names for part in _TENSOR_PARALLEL if "torch" in name):
        found.append(Framework("several parallel dimensions", ()))
    return found


def _matches(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
