"""Pitfalls to plant in what ``ddpify convert`` wrote of the fixtures.

Each is a code, a fixture, and replacements of text that occurs once in its conversion.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One planted pitfall; ``options`` are those of ``convert``."""

    code: str
    fixture: str
    changes: tuple[tuple[str, str], ...]
    options: tuple[str, ...] = ()


def _mutant(code: str, fixture: str, *changes: tuple[str, str], fsdp: bool = False) -> Mutant:
    return Mutant(code, fixture, changes, ("--strategy", "fsdp") if fsdp else ())


CNN, WINDOW, TRAINER, STOP = (
    "batchnorm_cnn",
    "gradient_accumulation",
    "trainer_class",
    "early_stopping",
)
SAVE = "    dd.save(convnet.state_dict(), './bars_net.pth')\n"
WRAPPED = "dd.wrap(ConvNet(len(CLASSES)).to(dev))"
PLAIN = "ConvNet(len(CLASSES)).to(dev)"
FORWARD = "            outputs = convnet(imgs)\n"
STEP = "            optimizer.step()\n"
PRINTED = "            if i % 3 == 2:    # print every 3 mini-batches\n"
TRAINLOADER = (
    "dd.shard(data.DataLoader(train_data, batch_size=BATCH_SIZE, shuffle=True, num_workers=0))"
)
EVALUATED = "        print('accuracy on the"
OPTIMIZED = "    optim = torch.optim.AdamW(clf.parameters(), lr=3e-3, weight_decay=0.01)\n"
SHARDED = '    clf = dd.wrap(Classifier().to(device), strategy="fsdp")\n'
STATE = '{"model": clf.state_dict(), "optim": optim.state_dict(), "step": global_step}'

DATA = [
    _mutant("DDP101", CNN, (TRAINLOADER, TRAINLOADER[len("dd.shard(") : -1])),
    _mutant("DDP101", CNN, (TRAINLOADER, TRAINLOADER.replace("dd.shard", "dd.replicate"))),
    _mutant(
        "DDP101",
        "weighted_sampler",
        ("s = dd.shard(DataLoader(train_set", "s = (DataLoader(train_set"),
    ),
    _mutant("DDP101", "iterable_dataset", ("stream = dd.shard(", "stream = (")),
    _mutant("DDP106", "random_windows", ("    xb, yb = dd.shard_batch(xb, yb)\n", "")),
    _mutant("DDP108", CNN, (FORWARD, FORWARD.replace("(imgs)", "(dd.shard_batch(imgs))"))),
    _mutant(
        "DDP117",
        CNN,
        ("import torch\n", "import torch\nimport torchvision\n"),
        ("BarsAndBlobs(85)", "torchvision.datasets.MNIST('data', download=True)"),
    ),
]
DEVICE = [
    _mutant("DDP201", CNN, ("dev = dd.device()", 'dev = torch.device("cuda:0")')),
    _mutant("DDP201", "hardcoded_cuda", ("Encoder().to(dd.device())", "Encoder().cuda(0)")),
    _mutant("DDP203", CNN, ("dev = dd.device()", 'dev = torch.device("cuda", dd.rank())')),
    _mutant(
        "DDP205",
        STOP,
        ("torch.load(stopper.path, map_location=device)", "torch.load(stopper.path)"),
    ),
]
MODEL = [
    _mutant("DDP305", CNN, (WRAPPED, PLAIN)),
    _mutant(
        "DDP305",
        CNN,
        (WRAPPED, PLAIN + "\n    convnet.features = dd.wrap(convnet.features)"),
    ),
    _mutant(
        "DDP305",
        CNN,
        ("import torch\n", "import copy\nimport torch\n"),
        (WRAPPED, PLAIN + "\n    wrapped = dd.wrap(copy.deepcopy(convnet))"),
    ),
    _mutant("DDP307", CNN, (WRAPPED, WRAPPED + "\n    convnet.head = nn.Linear(108, 3).to(dev)")),
    _mutant(
        "DDP320",
        CNN,
        (WRAPPED, PLAIN),
        (FORWARD, FORWARD.replace("(imgs)", ".head(dd.wrap(convnet.features)(imgs).flatten(1))")),
    ),
    _mutant("DDP320", CNN, (WRAPPED, PLAIN),
            (FORWARD, FORWARD.replace("convnet(", "dd.wrap(convnet)("))),
]  # fmt: skip
SYNCHRONISATION = [
    _mutant(
        "DDP401",
        CNN,
        (STEP, STEP + "            if dd.is_main():\n                dd.mean(loss)\n"),
    ),
    _mutant("DDP401", CNN, (SAVE, "    if dd.is_main():\n    " + SAVE)),
    _mutant("DDP401", CNN, (EVALUATED, "        if dd.is_main():\n    " + EVALUATED)),
    _mutant(
        "DDP401",
        CNN,
        (SAVE, SAVE + "    if dd.rank() == 0:\n        for imgs, lbls in testloader:\n"
                      "            print(imgs.mean())\n"),
    ),
    _mutant(
        "DDP402",
        CNN,
        ("loss = dd.mean(criterion(outputs, lbls))\n            loss.backward()",
         "loss = criterion(outputs, lbls)\n            dd.mean(loss).backward()\n"
         "            if (outputs.argmax(1) == lbls).sum() > 15:\n                break"),
    ),
    _mutant(
        "DDP403",
        CNN,
        (FORWARD, FORWARD + "            if dd.is_main():\n                print(convnet(imgs))\n"),
    ),
    _mutant(
        "DDP404",
        CNN,
        ("            loss.backward()\n",
         "            try:\n                loss.backward()\n"
         "            except RuntimeError:\n                continue\n"),
    ),
    _mutant("DDP405", CNN, ("dd.sum((predicted == lbls).sum())", "(predicted == lbls).sum()")),
    _mutant("DDP405", CNN, ("dd.global_batch_size(lbls)", "lbls.size(0)")),
    _mutant(
        "DDP405",
        CNN,
        ("            running_loss += loss.item()\n",
         "            running_loss += criterion(outputs, lbls).item()\n"),
    ),
    _mutant("DDP405", TRAINER, ("dd.sum((logits.argmax(1) == labels).sum())",
                                "(logits.argmax(1) == labels).sum()")),
    _mutant("DDP405", "lists_of_predictions", ("dd.gather(truth)", "truth")),
    _mutant(
        "DDP407",
        TRAINER,
        ("            self.scheduler.step()\n",
         "            if dd.is_main():\n                self.scheduler.step()\n"),
    ),
    _mutant("DDP408", "sum_loss", ("loss = dd.sum(loss_function(recon_batch, data, mu, logvar))",
                                   "loss = loss_function(recon_batch, data, mu, logvar)")),
    _mutant("DDP409", WINDOW, ("dd.mean(loss / ACCUM_STEPS)",
                               "dd.mean(loss / ACCUM_STEPS) / dd.world_size()")),
    _mutant(
        "DDP412",
        CNN,
        ("dd.mean(criterion(outputs, lbls))",
         "dd.mean(criterion(outputs @ outputs.t(), torch.arange(len(lbls), device=dev)))"),
    ),
    _mutant("DDP413", CNN, ("dd.mean(criterion(outputs, lbls))", "criterion(outputs, lbls)")),
    _mutant("DDP413", CNN, ("dd.sum((predicted", "dd.mean((predicted")),
    _mutant("DDP413", CNN, ("dd.mean(criterion", "dd.sum(criterion")),
    _mutant("DDP413", WINDOW, ("dd.mean(loss / ACCUM_STEPS)", "loss / ACCUM_STEPS")),
    _mutant(
        "DDP423",
        CNN,
        ("    dd.init()\n", ""),
        ("    dev = dd.device()\n", "    dev = dd.device()\n    dd.init()\n"),
    ),
]  # fmt: skip
FILES = [
    _mutant("DDP501", CNN, (SAVE, SAVE.replace("dd.save", "torch.save"))),
    _mutant("DDP501", STOP, ('open("history.csv" if dd.is_main() else os.devnull, "w", newline="")',
                             'open("history.csv", "w", newline="")')),
    _mutant(
        "DDP502",
        CNN,
        (SAVE, "    if dd.local_rank() == 0:\n    " + SAVE.replace("dd.save", "torch.save")),
    ),
    _mutant("DDP506", TRAINER, (", exist_ok=True", "")),
    _mutant(
        "DDP508",
        CNN,
        ("import torch\n", "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n"),
        (SAVE, SAVE + "    writer = SummaryWriter('runs')\n    writer.add_scalar('loss', 0.0)\n"),
    ),
]  # fmt: skip
SHARDING = [
    _mutant("DDPF01", WINDOW, (OPTIMIZED, ""),
            (SHARDED, SHARDED.replace('dd.wrap(Classifier().to(device), strategy="fsdp")',
                                      "Classifier().to(device)")
             + OPTIMIZED + '    clf = dd.wrap(clf, strategy="fsdp")\n'), fsdp=True),
    _mutant(
        "DDPF03",
        WINDOW,
        (f'    dd.save({STATE}, "clf.pt")\n',
         f'    if dd.is_main():\n        torch.save({STATE}, "clf.pt")\n'),
        fsdp=True,
    ),
]  # fmt: skip
MUTANTS = [*DATA, *DEVICE, *MODEL, *SYNCHRONISATION, *FILES, *SHARDING]
