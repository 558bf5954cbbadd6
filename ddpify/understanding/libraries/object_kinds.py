"""What kinds of library objects there are: models, losses, loaders, by their qualified names."""

from __future__ import annotations

from functools import cache, lru_cache

import libcst as cst

from ddpify.understanding.libraries import distributed, losses
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Class, Instance, QualifiedName

NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")
DATALOADERS = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "monai.data.DataLoader",
    }
)
GRAD_SCALERS = (
    "torch.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler",
    "torch.cuda.amp.GradScaler",
    "torch.cuda.amp.grad_scaler.GradScaler",
)
OWN_FUNCTIONS = ("torch.autograd.Function", "torch.autograd.function.Function")
# Progress bars, each with the name of its first argument, which it goes through.
BARS = {
    "tqdm.tqdm": "iterable",
    "tqdm.trange": "",
    "rich.progress.track": "sequence",
    "alive_progress.alive_it": "it",
}
_WITHOUT_WEIGHTS = tuple(
    "torch.nn.MaxPool torch.nn.AvgPool torch.nn.AdaptiveAvgPool torch.nn.AdaptiveMaxPool"
    " torch.nn.LPPool torch.nn.FractionalMaxPool torch.nn.MaxUnpool torch.nn.ReflectionPad"
    " torch.nn.ReplicationPad torch.nn.CircularPad torch.nn.ZeroPad torch.nn.ConstantPad"
    " torch.nn.Softmax torch.nn.LogSoftmax torch.nn.Softmin torch.nn.CosineSimilarity"
    " torch.nn.Pixel torch.nn.Fold torch.nn.Unfold torch.nn.Upsampl torch.nn.Dropout"
    " torch.nn.LocalResponseNorm torch.nn.ChannelShuffle torch.nn.Flatten torch.nn.ReLU"
    " torch.nn.LeakyReLU torch.nn.Sigmoid torch.nn.LogSigmoid torch.nn.Tanh torch.nn.Softplus"
    " torch.nn.PairwiseDistance torch.nn.Identity".split()
)
_DROPOUT = "torch.nn.Dropout"
_LOADERS = ("torch.hub.load", "torch.jit.load")  # of modules
_ALIASES = {
    **distributed.ALIASES,
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader": "torch.utils.data",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    **{
        f"tqdm.{module}.{name}": f"tqdm.{name}"
        for module in ("asyncio", "auto", "autonotebook", "gui", "notebook", "rich", "std")
        for name in ("tqdm", "trange")
    },
    "tqdm.tqdm_notebook": "tqdm.tqdm",
    "tqdm.tnrange": "tqdm.trange",
    "pathlib.PosixPath": "pathlib.Path",
    "collections.OrderedDict": "builtins.dict",
}


def canonical(name: str) -> str:
    """One name for things that libraries export under several."""
    return _ALIASES.get(name, name)


def is_model(instance: Instance) -> bool:
    """Whether an object is an ``nn.Module``, by what its class derives from or what it does."""
    if instance.role is not None:
        return instance.role == "model"
    if isinstance(instance.type, Class):
        return _derives_from_module(instance.type)
    return is_module_class(instance.type)


def _derives_from_module(made: Class) -> bool:
    """Whether a library class that a class derives from is one of modules.

    It is asked of most objects: to go through ``library_bases()`` takes twice as long.
    """
    for base in made.bases:
        for atom in base.atoms:
            if type(atom) is QualifiedName:
                if is_module_class(atom.name):
                    return True
            elif type(atom) is Class and _derives_from_module(atom):
                return True
    return False


@cache
def is_module_class(name: str) -> bool:
    """Whether a qualified name is that of a class or maker of modules."""
    last = name.rsplit(".", 1)[-1]
    if name.startswith(("torch.nn.functional.", "torch.nn.utils.", "torch.nn.init.")):
        return False
    if name.startswith(("torch.nn.", "torchvision.models.")):
        return last not in ("Parameter", "ParameterList") and (
            last.lstrip("_")[:1].isupper() or name.startswith("torchvision.models.")
        )
    return last in ("PreTrainedModel", "LightningModule", "MessagePassing") or name in _LOADERS


def is_loss(instance: Instance) -> bool:
    """Whether an object is one of PyTorch's losses."""
    return isinstance(instance.type, str) and losses.is_module(instance.type)


def is_scaler(instance: Instance) -> bool:
    """Whether an object is a GradScaler or derives from it."""
    kind = instance.type
    names = kind.library_bases() if isinstance(kind, Class) else (kind,)
    return any(name in GRAD_SCALERS for name in names)


def has_no_weights(layer: Instance) -> bool:
    """Whether this is one of PyTorch's layers that hold no parameters."""
    return layer.kind.startswith(_WITHOUT_WEIGHTS)


def is_criterion(instance: Instance, above: tuple[Instance, ...] = ()) -> bool:
    """Whether a module of the project only computes: it has no parameter, and draws nothing.

    Losses are written so. Other than a model's forward, they may mix the samples of a batch.
    ``above``: the modules that hold it.
    """
    if not isinstance(instance.type, Class) or _has_parameters(instance.type.node):
        return False
    held = (a for a in instance.held() if isinstance(a, Instance))
    models = (a for a in held if is_model(a) and not is_loss(a) and not _only_computes(a))
    above = (*above, instance)
    return all(a in above or is_criterion(a, above) for a in models)


def _only_computes(layer: Instance) -> bool:
    return has_no_weights(layer) and not layer.kind.startswith(_DROPOUT)


@lru_cache(maxsize=256)
def _has_parameters(node: cst.ClassDef) -> bool:
    calls = (n.func for n in walk(node) if isinstance(n, cst.Call))
    names = {(dotted(func) or "").rsplit(".", 1)[-1] for func in calls}
    return bool(names & {"Parameter", "register_parameter", "ParameterList"})


def is_loader(instance: Instance) -> bool:
    """Whether an object is a DataLoader or derives from it."""
    if isinstance(instance.type, Class):
        return any(base in DATALOADERS for base in instance.type.library_bases())
    return instance.type in DATALOADERS


def is_own_function(made: Class) -> bool:
    """Whether a class of the project is a function with a backward of its own."""
    return any(name in OWN_FUNCTIONS for name in made.library_bases())
