"""Public scripts for one GPU on which ``verify`` is tried, by the rule of public/VERIFY.md."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.public_scripts import Public

_DRAWN = """
import numpy, torch
from PIL import Image
class _Drawn(torch.utils.data.Dataset):
    shape, classes = (28, 28), [str(i) for i in range(10)]
    def __init__(self, root=None, train=True, transform=None, target_transform=None, download=True):
        draw = numpy.random.default_rng(1 if train else 2)
        count = COUNT if train else COUNT // 4
        self.transform = transform
        self.data = draw.integers(0, 255, (count, *self.shape), dtype=numpy.uint8)
        self.targets = draw.integers(0, len(self.classes), count).tolist()
        if self.shape == (28, 28):
            self.data, self.targets = torch.tensor(self.data), torch.tensor(self.targets)
    def __len__(self):
        return len(self.data)
    def __getitem__(self, at):
        image = Image.fromarray(numpy.asarray(self.data[at]))
        return self.transform(image) if self.transform else image, int(self.targets[at])
class MNIST(_Drawn):
    pass
class CIFAR10(_Drawn):
    shape = (32, 32, 3)
class CIFAR100(CIFAR10):
    classes = [str(i) for i in range(100)]
"""
_DATASETS = (
    ("*", r"from torchvision import datasets, (\w+)",
     r"import drawn as datasets\nfrom torchvision import \1"),
    ("*", r"from torchvision import datasets\b", "import drawn as datasets"),
    ("*", r"import torchvision\.datasets as datasets", "import drawn as datasets"),
    ("*", r"torchvision\.datasets\.", "drawn."),
    ("*", r"(?m)^import torchvision *$", "import torchvision\nimport drawn"),
)  # fmt: skip


def _drawn(count: int) -> dict[str, str]:
    return {"drawn.py": _DRAWN.replace("COUNT", str(count))}


_GAN_COMMIT = "36d3c77e5ff20ebe0aeefd322326a134a279b93e"
_TUTORIAL_COMMIT = "0500d3df5a2a8080ccfccbc00aca0eacc21818db"
_EXAMPLES_COMMIT = "77f55b912142e11fcfdf5b530231fb9c52f181e8"


def _gan(name: str) -> Public:
    return Public(f"PyTorch-GAN {name}", "eriklindernoren/PyTorch-GAN", _GAN_COMMIT, f"{name}.py",
                  ("--n_epochs", "1", "--batch_size", "16", "--sample_interval", "3"),
                  folder=f"implementations/{name}",
                  setup=(*_DATASETS, ("*", r"mnist_loader", "dataloader"),
                         ("*", r"\.data\[0\]", ".item()")), stubs=_drawn(104),
                  steps=0)  # fmt: skip


def _tutorial(name: str, folder: str) -> Public:
    shrunk = (("*", r"num_epochs = \d+", "num_epochs = 2"),
              ("*", r"batch_size = \d+", "batch_size = 16"),
              ("*", r"\(i\+1\) % \d+", "(i+1) % 2"))  # fmt: skip
    return Public(f"pytorch-tutorial {name}", "yunjey/pytorch-tutorial", _TUTORIAL_COMMIT,
                  "main.py", (), folder=f"tutorials/{folder}/{name}",
                  setup=(*_DATASETS, *shrunk), stubs=_drawn(104), steps=0)  # fmt: skip


def _example(name: str, args: tuple[str, ...]) -> Public:
    return Public(f"examples {name}", "pytorch/examples", _EXAMPLES_COMMIT, "main.py", args,
                  folder=name, setup=_DATASETS, stubs=_drawn(104), steps=0)  # fmt: skip


def _compiled(public: Public) -> Public:
    moved = ("main.py", r"(?m)^( *)model = (\w+\(.*\)\.to\(device\)|nn\.Linear\(.*\))$",
             r"\1model = torch.compile(\2)")  # fmt: skip
    return replace(public, name=f"{public.name}, compiled", setup=(*public.setup, moved))


def _long(public: Public, count: int) -> Public:
    """As its author runs it: only the data are drawn."""
    return replace(public, name=f"{public.name}, long", setup=_DATASETS, stubs=_drawn(count),
                   steps=4, args=())  # fmt: skip


_BASICS, _INTERMEDIATE, _ADVANCED = "01-basics", "02-intermediate", "03-advanced"
_RESNET = _tutorial("deep_residual_network", _INTERMEDIATE)
_MNIST = _example("mnist", ("--epochs", "2", "--batch-size", "16", "--log-interval", "2"))
_VAE = _example("vae", ("--epochs", "2", "--batch-size", "16", "--log-interval", "2"))
_PHASES = ("aae", "acgan", "began", "bgan", "cgan", "dcgan", "dragan", "ebgan", "gan", "infogan")
_LONG = (
    Public("pytorch-cifar, long", "kuangliu/pytorch-cifar",
           "49b7aa97b0c12fe0d4054e670403a16b6b834ddd", "main.py", (),
           setup=(*_DATASETS, ("main.py", r"net = SimpleDLA\(\)", "net = LeNet()"),
                  ("utils.py", r"_, term_width = os\.popen.*", "term_width = 80")),
           stubs=_drawn(50_000), steps=4),
    Public("pytorch-cifar100, long", "weiaicunzai/pytorch-cifar100",
           "11d8418f415b261e4ae3cb1ffe20d06ec95b98e4", "train.py", ("-net", "squeezenet"),
           setup=_DATASETS, stubs=_drawn(50_000), steps=4),
    _long(_MNIST, 60_000),
    _long(_VAE, 60_000),
    _long(_example("siamese_network", ()), 60_000),
    _long(_RESNET, 50_000),
    Public("makemore, long", "karpathy/makemore", "988aa59e4d8fefa526d06f3b453ad116258398d4",
           "makemore.py", (), steps=4),
    Public("minGPT adder, long", "karpathy/minGPT", "37baab71b9abea1b76ab957409a1cc2fbfba8a26",
           "adder.py", (), steps=4,
           stubs={"make.py": "import shutil\nshutil.copy('projects/adder/adder.py', 'adder.py')"}),
    Public("TCN adding problem, long", "locuslab/TCN",
           "2f8c2b817050206397458dfd1f5a25ce8a32fe65", "add_test.py", (), steps=4,
           stubs={"make.py": "import shutil\n"
                  "shutil.copy('TCN/adding_problem/add_test.py', 'add_test.py')"}),
    Public("mixup-cifar10, long", "facebookresearch/mixup-cifar10",
           "eaff31ab397a90fbc0a4aac71fb5311144b3608b", "train.py", ("--model", "LeNet"),
           setup=(*_DATASETS, ("train.py", r"loss\.data\[0\]", "loss.item()"),
                  ("train.py", r", volatile=True", ""),
                  ("utils.py", r"_, term_width = os\.popen.*", "term_width = 80")),
           stubs=_drawn(50_000), steps=4),
)  # fmt: skip

SCRIPTS = (
    *(("phases", _gan(name)) for name in _PHASES),
    *(("compiled", _compiled(public)) for public in (
        _tutorial("logistic_regression", _BASICS),
        _tutorial("feedforward_neural_network", _BASICS),
        _tutorial("convolutional_neural_network", _INTERMEDIATE),
        _RESNET,
        _tutorial("recurrent_neural_network", _INTERMEDIATE),
        _tutorial("bidirectional_recurrent_neural_network", _INTERMEDIATE),
        _tutorial("variational_autoencoder", _ADVANCED),
        _MNIST,
        _VAE,
        _example("mnist_rnn", ("--epochs", "2", "--batch-size", "16", "--log-interval", "2")),
    )),
    *(("long", public) for public in _LONG),
)  # fmt: skip
