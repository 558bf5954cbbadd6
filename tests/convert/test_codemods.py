"""Loaders, models, files, devices, the process group: before and after, in small scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import HEAD, STEP, added, changed_lines, convert_text


def test_the_whole_small_script(tmp_path: Path) -> None:
    removed, new = changed_lines(convert_text(tmp_path, HEAD + STEP))
    assert new == [
        "from ddpify import runtime as dd",
        "",
        "dd.init()",
        "feed = dd.shard(DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=True))",
        "brain = dd.wrap(nn.Linear(4, 3))",
        "penalty = dd.mean(F.cross_entropy(brain(a), b), lazy=True)",
    ]
    assert len(removed) == 3


def test_notes_name_the_rules_of_lint(tmp_path: Path) -> None:
    text = HEAD + STEP + "torch.save(brain.state_dict(), 'x.pt')\n"
    notes = [str(note).split(" ")[1:3] for note in convert_text(tmp_path, text).notes]
    assert notes == [
        ["DDP101", "loader"],
        ["DDP305", "model"],
        ["DDP413", "F.cross_entropy(brain(a),"],
        ["DDP501", "saved"],
    ]


def test_a_main_guard_gets_the_start(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in (HEAD.split("\n\n", 1)[1] + STEP).splitlines())
    imports = HEAD.split("\n\n", 1)[0]
    text = f"{imports}\n\ndef main():\n{body}\n\nif __name__ == '__main__':\n    main()\n"
    after = convert_text(tmp_path, text).data.decode()
    assert after.endswith("if __name__ == '__main__':\n    dd.init()\n    main()\n")


def test_a_name_in_use_is_not_taken(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD.replace("features", "dd") + STEP)
    assert "from ddpify import runtime as ddp" in lines


def test_vendored_scripts_import_the_file_beside_them(tmp_path: Path) -> None:
    assert "import ddpify_runtime as dd" in added(tmp_path, HEAD + STEP, vendored=True)


DEVICES_HANDED_ON = {
    "to functions": (
        "def build(place='cpu'):\n    return make(2, place)\n"
        "def make(n, where):\n    return torch.zeros(n, device=where)\n"
        "gpu = 'cuda'\nstart = build(place=gpu)\nlabels = labels.to(gpu)\n",
        ["gpu = dd.device()"],
    ),
    "to an attribute": (
        "class Trainer:\n    def __init__(self, place):\n        self.place = place\n"
        "    def put(self, x):\n        return x.to(self.place)\n"
        "gpu = 'cuda:0'\nlabels = Trainer(gpu).put(labels)\n",
        ["gpu = dd.device()"],
    ),
    "also printed": (
        "def put(x, place):\n    print(place)\n    return x.to(place)\n"
        "gpu = 'cuda'\nlabels = put(labels, gpu)\n",
        ["return x.to(dd.device(place))"],
    ),
    "beside another": (
        "def put(x, place):\n    return x.to(place)\n"
        "gpu = 'cuda'\nlabels, features = put(labels, gpu), put(features, 'cuda:1')\n",
        ["return x.to(dd.device(place))"],
    ),
}


@pytest.mark.parametrize("name", DEVICES_HANDED_ON)
def test_a_device_that_is_handed_on_is_the_ranks_where_it_is_set(tmp_path: Path, name: str) -> None:
    code, expected = DEVICES_HANDED_ON[name]
    lines = added(tmp_path, HEAD + code + STEP)
    assert [line for line in lines if "device" in line] == expected


def test_a_model_that_a_helper_changes_is_wrapped_after_the_call(tmp_path: Path) -> None:
    text = HEAD.replace("rule =", "freeze(brain)\nrule =").replace(
        "features,",
        "def freeze(net):\n    for p in net.parameters():\n        p.requires_grad = p.dim() > 1\n"
        "features,",
        1,
    )
    lines = added(tmp_path, text + STEP)
    assert "brain = dd.wrap(brain)" in lines
    assert not any("net" in line for line in lines)


TRAINED_ALONE = {
    "a tensor by itself": (
        "scale = torch.ones(1, requires_grad=True)\nextra = torch.optim.SGD([scale], lr=0.1)\n",
        "extra = torch.optim.SGD([dd.trained_tensor(scale)], lr=0.1)",
    ),
    "a tensor beside a model's parameters": (
        "scale = torch.ones(1, requires_grad=True)\n"
        "extra = torch.optim.SGD(list(brain.parameters()) + [scale], lr=0.1)\n",
        "extra = torch.optim.SGD(list(brain.parameters()) + [dd.trained_tensor(scale)], lr=0.1)",
    ),
    "a tensor in a list that is filled": (
        "scale = torch.ones(1, requires_grad=True)\ntrained = [*brain.parameters()]\n"
        "trained.append(scale)\nextra = torch.optim.SGD(trained, lr=0.1)\n",
        "trained.append(dd.trained_tensor(scale))",
    ),
    "a tensor that is added later": (
        "scale = torch.ones(1, requires_grad=True)\nrule.add_param_group({'params': [scale]})\n",
        "rule.add_param_group({'params': [dd.trained_tensor(scale)]})",
    ),
}


@pytest.mark.parametrize("name", TRAINED_ALONE)
def test_a_tensor_that_no_model_holds_is_trained_by_the_mean_of_gradients(
    tmp_path: Path, name: str
) -> None:
    before, wanted = TRAINED_ALONE[name]
    body = STEP.replace("F.cross_entropy(brain(a), b)", "F.cross_entropy(brain(a) * scale, b)")
    assert wanted in added(tmp_path, HEAD + before + body)


def test_rows_are_trained_by_optimizers_that_go_by_element(tmp_path: Path) -> None:
    own = "    z = torch.zeros_like(a, requires_grad=True)\n    own = torch.optim.{}([z], lr=0.1)\n"
    own += "    F.cross_entropy(brain(a + z), b).backward()\n    print(z.grad.max())\n"
    own += "    own.step()\n"
    text = HEAD + STEP.replace("    penalty = ", f"{own}    penalty = ", 1)
    lines = added(tmp_path, text.format("Adam").replace("own.step()", "z.grad.mul_(2)"))
    assert "own = torch.optim.Adam([dd.trained_rows(z)], lr=0.1)" in lines
    assert any(" / dd.gradient_scale(z)" in line for line in lines)
    with pytest.raises(Refusal, match="trains rows of the batch"):
        convert_text(tmp_path, text.format("LBFGS"))


TRAINED_PAST_DDP = {
    "gradients of parameters": (
        "",
        "    penalty = F.cross_entropy(brain(a), b)\n"
        "    slopes = torch.autograd.grad(penalty, brain.parameters(), create_graph=True)\n",
        "takes gradients of a model's parameters",
    ),
    "gradients of parameters by name": (
        "",
        "    penalty = F.cross_entropy(brain(a), b)\n    named = dict(brain.named_parameters())\n"
        "    slopes = torch.autograd.grad(penalty, named.values(), create_graph=True)\n",
        "takes gradients of a model's parameters",
    ),
}


@pytest.mark.parametrize("name", TRAINED_PAST_DDP)
def test_what_is_trained_past_the_wrapped_model(tmp_path: Path, name: str) -> None:
    before, body, message = TRAINED_PAST_DDP[name]
    text = HEAD + before + STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", body)
    with pytest.raises(Refusal, match=message):
        convert_text(tmp_path, text)


OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--rows', type=int, default=6)
args = parser.parse_args()
"""


def test_what_is_made_as_large_as_a_batch_is_split_where_it_meets_one(tmp_path: Path) -> None:
    text = (
        OPTIONS
        + HEAD.replace("batch_size=6, shuffle", "batch_size=args.rows, shuffle")
        + "class Trainer:\n    def __init__(self):\n        self.rows = args.rows\n"
        "        self.truth = torch.ones(self.rows, 3)\n"
        "    def step(self, a):\n        noise = torch.rand(self.rows, 3)\n"
        "        return F.mse_loss(brain(a) + noise, self.truth)\ntrainer = Trainer()\n"
        + STEP.replace("F.cross_entropy(brain(a), b)", "trainer.step(a)")
    )
    lines = added(tmp_path, text)
    assert "noise = dd.split(torch.rand(self.rows, 3))" in lines
    assert "return F.mse_loss(brain(a) + noise, dd.split(self.truth))" in lines
    assert "penalty = dd.mean(trainer.step(a))" in lines


def test_a_write_among_the_statements_of_a_line_is_that_of_rank_0(tmp_path: Path) -> None:
    text = (
        "import matplotlib.pyplot as plt\n" + HEAD + STEP + "plt.savefig('x'); plt.close()  # x\n"
    )
    lines = added(tmp_path, text)
    assert lines[-3:] == ["if dd.is_main():", "plt.savefig('x')", "plt.close()  # x"]


MODELS = {
    "moved": ("brain = nn.Linear(4, 3).to('cpu')", "brain = dd.wrap(nn.Linear(4, 3).to('cpu'))"),
    "moved later": ("brain = nn.Linear(4, 3)\nbrain.to('cpu')", "brain = dd.wrap(brain)"),
    "rebound": (
        "brain = nn.Linear(4, 3)\nbrain = brain.to('cpu')",
        "brain = dd.wrap(brain.to('cpu'))",
    ),
    "under a condition": (
        "brain = nn.Linear(4, 3)\nif torch.cuda.is_available():\n    brain.cuda()",
        "brain = dd.wrap(brain)",
    ),
    "with another under a condition": (
        "brain, rest = nn.Linear(4, 3), torch.zeros(1)\nif torch.cuda.is_available():\n"
        "    rest, brain = rest.cuda(), brain.cuda()",
        "brain = dd.wrap(brain)",
    ),
    "data parallel": (
        "brain = nn.DataParallel(nn.Linear(4, 3))",
        "brain = dd.wrap(nn.Linear(4, 3), move_inputs=True)",
    ),
    "out of a file": (
        "brain = torch.load('x.pt').to('cpu')",
        "brain = dd.wrap(dd.load('x.pt').to('cpu'))",
    ),
    "out of a checkpoint, or new": (
        "if torch.cuda.is_available():\n    brain = torch.load('x.pt')['net']\n"
        "else:\n    brain = nn.Linear(4, 3)",
        "brain = dd.wrap(brain)",
    ),
    "frozen in part": (
        "brain = nn.Linear(4, 3)\nfor p in brain.parameters():\n    p.requires_grad = True",
        "brain = dd.wrap(brain)",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_wrapped_when_it_is_ready(tmp_path: Path, name: str) -> None:
    made, expected = MODELS[name]
    lines = added(tmp_path, HEAD.replace("brain = nn.Linear(4, 3)", made) + STEP)
    assert expected in lines
    assert sum("dd.wrap" in line for line in lines) == 1


def test_a_model_out_of_a_file_that_may_take_the_place_of_another_is_wrapped(
    tmp_path: Path,
) -> None:
    made = "brain = nn.Linear(4, 3)\nif len(features) > 3:\n    brain = torch.load('x.pt')"
    text = HEAD.replace("brain = nn.Linear(4, 3)", made) + STEP
    after = [line.strip() for line in convert_text(tmp_path, text).data.decode().splitlines()]
    assert after.index("brain = dd.wrap(brain)") == after.index("brain = dd.load('x.pt')") + 1


def test_a_model_is_wrapped_before_it_is_used_in_its_branch(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in (HEAD.splitlines()[-2:] + STEP.splitlines()))
    text = "\n".join(HEAD.splitlines()[:-2]) + f"\nif len(features) > 3:\n{body}"
    text = text.replace("brain = nn.Linear(4, 3)", "brain = nn.Linear(4, 3)\n    brain.to('cpu')")
    after = [line.strip() for line in convert_text(tmp_path, text).data.decode().splitlines()]
    assert after.index("brain = dd.wrap(brain)") == after.index("brain.to('cpu')") + 1


def test_a_builder_of_several_models_is_left_alone(tmp_path: Path) -> None:
    build = "def build():\n    return nn.Linear(4, 3)\n\n\nteacher = build()\nbrain = build()"
    text = HEAD.replace("brain = nn.Linear(4, 3)", build) + STEP.replace(
        "F.cross_entropy(brain(a), b)", "F.mse_loss(brain(a), teacher(a).detach())"
    )
    lines = added(tmp_path, text)
    assert "brain = dd.wrap(brain)" in lines
    assert sum("dd.wrap" in line for line in lines) == 1


def test_what_data_parallel_wrapped_is_the_model_itself(tmp_path: Path) -> None:
    text = HEAD.replace("brain = nn.Linear(4, 3)", "brain = nn.DataParallel(nn.Linear(4, 3))")
    lines = added(tmp_path, text + STEP + "torch.save(brain.module.state_dict(), 'x.pt')\n")
    assert "dd.save(brain.state_dict(), 'x.pt')" in lines


def test_data_parallel_keeps_the_keys_of_checkpoints(tmp_path: Path) -> None:
    """``module.weight`` in a file stays so; each rank's wrapper has its own device alone."""
    text = HEAD.replace("brain = nn.Linear(4, 3)", "brain = nn.DataParallel(nn.Linear(4, 3))")
    lines = added(tmp_path, text + STEP + "torch.save(brain.state_dict(), 'x.pt')\n")
    assert "brain = dd.wrap(nn.DataParallel(nn.Linear(4, 3), device_ids=[dd.device()]))" in lines


FOR_SEVERAL = [
    "if {n} > 1:\n    M",
    "if {n} != 1:\n    M",
    "if not {n} <= 1:\n    M",
    "if {n} < 2:\n    pass\nelse:\n    M",
    "if len(features) > 0 and {n} >= 2:\n    M",
    "brain = nn.DataParallel(brain) if {n} > 1 else brain",
    "if {n} == 1 or len(features) < 3:\n    pass\nelse:\n    M",
]
FOR_ONE = [
    "if {n} > 1:\n    pass\nelse:\n    M",
    "if {n} <= 1:\n    M",
    "if not {n} > 1:\n    M",
    "if {n} > 0:\n    M",
    "if {n} > 1:\n    pass\nelif {n} == 1:\n    M",
    "if len(features) > 3 or {n} > 1:\n    M",
    "brain = brain if {n} > 1 else nn.DataParallel(brain)",
]


def _beside_a_question(tmp_path: Path, question: str, number: str) -> str:
    made = question.format(n=number).replace("M", "brain = nn.DataParallel(brain)")
    text = HEAD + f"ids = [0]\n{made}\nfound = list(brain.state_dict())\n" + STEP
    return convert_text(tmp_path, text).data.decode()


@pytest.mark.parametrize("number", ["torch.cuda.device_count()", "len(ids)"])
@pytest.mark.parametrize("question", FOR_SEVERAL)
def test_data_parallel_for_several_devices_goes(tmp_path: Path, question: str, number: str) -> None:
    assert "DataParallel" not in _beside_a_question(tmp_path, question, number)


@pytest.mark.parametrize("number", ["torch.cuda.device_count()", "len(ids)"])
@pytest.mark.parametrize("question", FOR_ONE)
def test_data_parallel_of_one_device_keeps_its_keys(
    tmp_path: Path, question: str, number: str
) -> None:
    """It is there with one device, too, and so are the names that a script compares."""
    assert "DataParallel(brain, device_ids=[dd.device()])" in _beside_a_question(
        tmp_path, question, number
    )


SPREAD = """\
class Wide(nn.Module):
    def __init__(self, ngpu):
        super().__init__()
        self.ngpu, self.main = ngpu, nn.Linear(4, 3)
    def forward(self, x):
        if x.is_cuda and self.ngpu > 1:
            return {}
        return self.main(x)


brain = Wide(2)
"""


@pytest.mark.parametrize(
    "call",
    [
        "nn.parallel.data_parallel(self.main, x, range(self.ngpu))",
        "nn.parallel.data_parallel(self.main, x, device_ids=[0, 1], output_device=0)",
    ],
)
def test_a_model_that_data_parallel_calls_is_called(tmp_path: Path, call: str) -> None:
    text = HEAD.replace("brain = nn.Linear(4, 3)\n", SPREAD.format(call)) + STEP
    lines = added(tmp_path, text)
    assert "return self.main(x)" in lines
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines


@pytest.mark.parametrize(
    "call",
    [
        "nn.parallel.data_parallel(self.main, (x,), range(self.ngpu))",
        "nn.parallel.data_parallel(self.main, x, range(self.ngpu), dim=1)",
        "nn.parallel.parallel_apply(nn.parallel.replicate(self.main, [0, 1]), [x, x])[0]",
    ],
)
def test_a_batch_that_is_spread_by_hand_is_refused(tmp_path: Path, call: str) -> None:
    text = HEAD.replace("brain = nn.Linear(4, 3)\n", SPREAD.format(call)) + STEP
    with pytest.raises(Refusal, match="over the GPUs of one process"):
        convert_text(tmp_path, text)


def test_data_parallel_in_a_builder_of_several_models(tmp_path: Path) -> None:
    build = (
        "def build(many):\n    net = nn.Linear(4, 3)\n    if many:\n"
        "        net = nn.DataParallel(net).to('cpu')\n    else:\n"
        "        net = nn.DataParallel(net)\n    return net\n\n\n"
        "teacher = build(True)\nbrain = build(False)"
    )
    text = HEAD.replace("brain = nn.Linear(4, 3)", build) + STEP.replace(
        "F.cross_entropy(brain(a), b)", "F.mse_loss(brain(a), teacher(a).detach())"
    )
    done = convert_text(tmp_path, text).data.decode()
    assert "    if many:\n        net = net.to('cpu')\n    return net\n" in done
    assert "brain = build(False)\nbrain = dd.wrap(brain)\n" in done
    assert done.count("dd.wrap") == 1


def test_an_untrained_model_is_not_wrapped(tmp_path: Path) -> None:
    text = (
        HEAD
        + "teacher = nn.Linear(4, 3)\n"
        + STEP.replace(
            "penalty = F.cross_entropy(brain(a), b)",
            "penalty = F.mse_loss(brain(a), teacher(a).detach())",
        )
    )
    assert not any("teacher" in line and "wrap" in line for line in added(tmp_path, text))


def test_without_synchronised_batch_norm(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + STEP, sync_batchnorm=False)
    assert "brain = dd.wrap(nn.Linear(4, 3), sync_batchnorm=False)" in lines


def test_batches_of_each_rank_and_learning_rates(tmp_path: Path) -> None:
    options = {"batch": "per-rank", "scale_lr": "linear"}
    evaluation = "for a, b in check:\n    brain(a)\n"
    conversion = convert_text(tmp_path, HEAD + STEP + evaluation, **options)
    _, new = changed_lines(conversion)
    assert 'rule = dd.scale_lr(torch.optim.SGD(brain.parameters(), lr=0.1), "linear")' in new
    assert sum('batch="per-rank"' in line for line in new) == 1  # evaluation is not affected
    texts = [note.text for note in conversion.notes if note.attention]
    assert any("the global batch is N times the original's" in text for text in texts)
    assert any("linear rule" in text for text in texts)


@pytest.mark.parametrize(
    ("options", "change"),
    [({"batch": "per-rank"}, 'batch="per-rank"'), ({"sampler": "distributed"}, "sampler=")],
)
def test_whole_batches_with_another_order_or_size(
    tmp_path: Path, options: dict[str, str], change: str
) -> None:
    """What is computed of all samples is that of all ranks' then, too."""
    text = collating("torch.stack(xs) - torch.stack(xs).mean(0), torch.stack(ys)")
    _, new = changed_lines(convert_text(tmp_path, text, **options))
    assert any(change in line and line.endswith(', collate="global")') for line in new)


def collating(result: str) -> str:
    """The example, with a collate function that returns this."""
    collate = f"def put(rows):\n    xs, ys = zip(*rows)\n    return {result}\n\n\n"
    return (
        HEAD.replace("features, labels =", collate + "features, labels =", 1).replace(
            "shuffle=True)", "shuffle=True, collate_fn=put)"
        )
        + STEP
    )


@pytest.mark.parametrize(
    ("result", "extra"),
    [
        ("pad_sequence(xs, batch_first=True), torch.stack(ys)", ', collate="global"'),
        ("pad_sequence(xs), torch.stack(ys)", ', collate="global", dim=(1, 0)'),
        ("torch.stack(xs), torch.stack(ys)", ""),
    ],
)
def test_padding_is_that_of_the_whole_batch(tmp_path: Path, result: str, extra: str) -> None:
    text = collating(result).replace(
        "import torch\n", "import torch\nfrom torch.nn.utils.rnn import pad_sequence\n", 1
    )
    conversion = convert_text(tmp_path, text)
    assert any(line.endswith(f"collate_fn=put){extra})") for line in changed_lines(conversion)[1])
    assert not any(note.attention for note in conversion.notes)


@pytest.mark.parametrize("pads", [True, False])
def test_a_collate_function_that_pads_is_pointed_out(tmp_path: Path, pads: bool) -> None:
    """Where it is not understood which dimension the rows lie along."""
    made = "{'x': xs, max(map(len, xs)): 0}" if pads else "{'x': xs}"
    notes = convert_text(tmp_path, collating(f"{made}, torch.stack(ys)")).notes
    assert (
        any("all samples of a batch together" in note.text for note in notes if note.attention)
        is pads
    )


def test_batches_made_by_hand_do_not_grow_with_the_ranks(tmp_path: Path) -> None:
    by_hand = STEP.replace(
        "for a, b in feed:\n",
        "for start in range(0, 20, 5):\n"
        "    a, b = features[start : start + 5], labels[start : start + 5]\n",
    )
    with pytest.raises(Refusal, match="makes this batch by hand") as refused:
        convert_text(tmp_path, HEAD + by_hand, batch="per-rank")
    assert refused.value.line == 12


def test_a_loader_of_several_lines_is_rebound(tmp_path: Path) -> None:
    several = "feed = DataLoader(\n    TensorDataset(features, labels),\n    batch_size=6,\n)"
    text = HEAD.replace(
        "feed = DataLoader(TensorDataset(features, labels), batch_size=6, shuffle=True)", several
    )
    removed, new = changed_lines(convert_text(tmp_path, text + STEP))
    assert "feed = dd.shard(feed)" in new
    assert not any("TensorDataset" in line for line in removed)


def test_loaders_of_a_comprehension_and_of_keywords(tmp_path: Path) -> None:
    text = f"""{HEAD}
options = {{"batch_size": 4, "shuffle": True}}
both = {{part: DataLoader(TensorDataset(features, labels), **options) for part in ("train", "val")}}
for part in ("train", "val"):
    for a, b in both[part]:
        rule.zero_grad()
        penalty = F.cross_entropy(brain(a), b)
        penalty.backward()
        rule.step()
"""
    expected = (
        "both = {part: dd.shard(DataLoader(TensorDataset(features, labels), **options))"
        ' for part in ("train", "val")}'
    )
    assert expected in added(tmp_path, text)


@pytest.mark.parametrize(
    "name", ["'cuda:{}'.format(len(features))", "f'cuda:{len(features)}'", "'cuda:%d' % 1"]
)
def test_a_formatted_device_is_that_of_the_rank(tmp_path: Path, name: str) -> None:
    text = HEAD + f"place = torch.device({name})\n" + STEP
    assert "place = dd.device()" in added(tmp_path, text)


FILES = {
    "save": ("torch.save(brain.state_dict(), 'x.pt')", ["dd.save(brain.state_dict(), 'x.pt')"]),
    "save into a file": (
        "with open('x.pt', 'wb') as f:\n    torch.save(brain.state_dict(), f)",
        ["dd.save(brain.state_dict(), 'x.pt')"],
    ),
    "other file": (
        "with open('x.txt', 'w') as f:\n    f.write('done')",
        ["if dd.is_main():", "with open('x.txt', 'w') as f:", "f.write('done')"],
    ),
    "a file whose name is used behind it": (
        "with open('x.txt', 'w') as f:\n    f.write('done')\nf.close()",
        ["import os", "with open('x.txt' if dd.is_main() else os.devnull, 'w') as f:"],
    ),
    "a name that is bound again behind it": (
        "with open('x.txt', 'w') as f:\n    f.write('done')\nf = 0\nprint(f)",
        ["if dd.is_main():", "with open('x.txt', 'w') as f:", "f.write('done')"],
    ),
    "reading": ("with open('script.py') as f:\n    print(len(f.read()))", []),
    "handle": (
        "log = open('x.txt', 'w')",
        ["import os", "log = open('x.txt' if dd.is_main() else os.devnull, 'w')"],
    ),
    "folder": ("import os\nos.makedirs('out')", ["os.makedirs('out', exist_ok=True)"]),
    "a new folder": (
        "import os\nos.makedirs('out', exist_ok='new' in __file__)",
        ["os.makedirs('out', exist_ok=True)"],
    ),
    "one folder": ("import os\nos.mkdir('out')", ["os.makedirs('out', exist_ok=True)"]),
    "picture of a tensor": (
        "from torchvision.transforms import ToPILImage\n"
        "seen = ToPILImage()(torch.rand(3, 4, 4))\nseen.save('x.png')",
        ["if dd.is_main():", "seen.save('x.png')"],
    ),
    "numpy": (
        "import numpy as np\nnp.save('x.npy', [1])",
        ["if dd.is_main():", "np.save('x.npy', [1])"],
    ),
    "library model": (
        "from transformers import GPT2Config, GPT2LMHeadModel\n"
        "net = GPT2LMHeadModel(GPT2Config())\n"
        "net_rule = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "net.save_pretrained('x')",
        ["net = dd.wrap(net)", "if dd.is_main():", "net.save_pretrained('x')"],
    ),
    "its tokenizer": (
        "from transformers import AutoTokenizer\n"
        "words = AutoTokenizer.from_pretrained('gpt2')\nwords.save_pretrained('x')",
        ["if dd.is_main():", "words.save_pretrained('x')"],
    ),
    "writer": (
        "from torch.utils.tensorboard import SummaryWriter\nlog = SummaryWriter()",
        ["log = SummaryWriter() if dd.is_main() else dd.silent()"],
    ),
    "writer on a condition": (
        "from torch.utils.tensorboard import SummaryWriter\n"
        "log = SummaryWriter() if len(feed) else None",
        ["log = (SummaryWriter() if dd.is_main() else dd.silent()) if len(feed) else None"],
    ),
    "experiment": (
        "import comet_ml\nlog = comet_ml.Experiment(api_key='x')\nlog.log_metric('rows', 1)",
        ["log = comet_ml.Experiment(api_key='x') if dd.is_main() else dd.silent()"],
    ),
    "writer of TensorFlow": (
        "import tensorflow as tf\nlog = tf.summary.create_file_writer('x')\n"
        "with log.as_default():\n    tf.summary.scalar('rows', 1, 0)",
        ["log = tf.summary.create_file_writer('x') if dd.is_main() else dd.silent()"],
    ),
    "functions that log": (
        "import mlflow\nmlflow.set_experiment('x')\n"
        "with mlflow.start_run() as log:\n    mlflow.log_metric('rows', 1)",
        [
            "if dd.is_main():",
            "mlflow.set_experiment('x')",
            "with mlflow.start_run() if dd.is_main() else dd.silent() as log:",
            "if dd.is_main():",
            "mlflow.log_metric('rows', 1)",
        ],
    ),
    "functions that log numbers of all ranks": (
        "from tensorboard_logger import configure, log_value\nconfigure('x')\n"
        "for a, b in feed:\n    log_value('right', (brain(a).argmax(1) == b).sum().item())",
        [
            "if dd.is_main():",
            "configure('x')",
            "whole = dd.sum((brain(a).argmax(1) == b).sum())",
            "if dd.is_main():",
            "log_value('right', whole.item())",
        ],
    ),
    "compiled model": (
        "torch.jit.script(brain).save('x.pt')",
        ["if dd.is_main():", "torch.jit.script(brain).save('x.pt')"],
    ),
    "path": (
        "from pathlib import Path\nPath('x').rename('y')\nprint('x'.replace('x', 'y'))",
        ["if dd.is_main():", "Path('x').rename('y')"],
    ),
    "archive": (
        "import h5py\nwith h5py.File('x.h5', 'a') as file:\n    file['x'] = 1",
        ["if dd.is_main():", "with h5py.File('x.h5', 'a') as file:", "file['x'] = 1"],
    ),
    "archive with a name": (
        "import zipfile\nfile = zipfile.ZipFile('x.zip', 'w')\nfile.writestr('x', 'y')",
        ["file = zipfile.ZipFile('x.zip', 'w') if dd.is_main() else dd.silent()"],
    ),
    "archive that is read": ("import h5py\nfile = h5py.File('x.h5', 'r')", []),
    "sheets": (
        "import pandas as pd\nsheets = pd.ExcelWriter('x.xlsx')",
        ["sheets = pd.ExcelWriter('x.xlsx') if dd.is_main() else dd.silent()"],
    ),
    "packed file": (
        "import bz2\nfile = bz2.open('x.bz2', 'wt')",
        ["import os", "file = bz2.open('x.bz2' if dd.is_main() else os.devnull, 'wt')"],
    ),
    "log file": (
        "from loguru import logger\nlogger.add('x.log')\nlogger.add(print)",
        ["import os", "logger.add('x.log' if dd.is_main() else os.devnull)"],
    ),
    "bar that is off": ("from tqdm import tqdm\nfor i in tqdm([1], disable=True):\n    pass", []),
    "bar": (
        "from tqdm import tqdm\nfor i in tqdm(range(3)):\n    pass",
        ["for i in tqdm(range(3), disable=not dd.is_main()):"],
    ),
    "bar on stdout": (
        "import sys\nfrom tqdm import tqdm\nfor i in tqdm(range(3), file=sys.stdout):\n    pass",
        [],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_rank_zero_alone_writes(tmp_path: Path, name: str) -> None:
    code, expected = FILES[name]
    plain = set(added(tmp_path, HEAD + STEP))
    lines = [line for line in added(tmp_path, HEAD + STEP + code + "\n") if line not in plain]
    assert lines == expected


def test_a_download_happens_once_a_node(tmp_path: Path) -> None:
    text = HEAD.replace(
        "features, labels = torch.randn(20, 4), torch.randint(0, 3, (20,))",
        "from torchvision.datasets import MNIST\nfeatures = MNIST('d', download=True)\nlabels = 1",
    )
    lines = added(tmp_path, text + STEP)
    at = lines.index("with dd.local_main_first():")
    assert lines[at + 1] == "features = MNIST('d', download=True)"


DOWNLOADS = [
    "vars(datasets)[name]('d', download=True)",
    "datasets.__dict__[name]('d', download=True)",
    "(datasets.MNIST if name == 'MNIST' else datasets.CIFAR10)('d', download=True)",
    "{'a': datasets.MNIST, 'b': datasets.CIFAR10}[name]('d', download=True)",
    "getattr(datasets, name)('d', download=True)",
    "datasets.MNIST('d', download=options.download)",
    "datasets.MNIST('d', download=not os.path.exists('d'))",
    "datasets.MNIST('d', **{'download': True})",
    "functools.partial(datasets.MNIST, 'd', download=True)()",
    "unseen.Pictures('d', download=True)",
]


@pytest.mark.parametrize("made", DOWNLOADS)
def test_a_data_set_that_may_download_is_made_once_a_node(tmp_path: Path, made: str) -> None:
    text = (
        "import argparse, functools, os, unseen\nfrom torchvision import datasets\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--download', action='store_true')\nparser.add_argument('--name')\n"
        f"options = parser.parse_args()\nname = options.name\nheld = {made}\n"
    )
    lines = added(tmp_path, text + HEAD + STEP)
    assert lines[lines.index("with dd.local_main_first():") + 1] == f"held = {made}"


DEVICES = {
    "indexed": ("d = torch.device('cuda:0')", "d = dd.device()"),
    "certain": ("d = torch.device('cuda')", "d = dd.device()"),
    "guarded index": (
        "d = torch.device('cuda:1' if torch.cuda.is_available() else 'cpu')",
        "d = dd.device()",
    ),
    "cuda()": ("labels = labels.cuda()", "labels = labels.to(dd.device())"),
    "cuda(n)": (
        "labels = labels.cuda(0, non_blocking=True)",
        "labels = labels.to(dd.device(), non_blocking=True)",
    ),
    "to(n)": ("labels = labels.to(0)", "labels = labels.to(dd.device())"),
    "keyword": (
        "labels = torch.zeros(20, device='cuda')",
        "labels = torch.zeros(20, device=dd.device())",
    ),
    "loaded": (
        "labels = torch.load('x.pt', map_location='cuda:0')",
        "labels = torch.load('x.pt', map_location=dd.device())",
    ),
    "a state": (
        "brain.load_state_dict(torch.load('x.pt'))",
        "brain.load_state_dict(dd.load('x.pt'))",
    ),
    "a state by a name": (
        "kept = torch.load('x.pt', weights_only=True)\nbrain.load_state_dict(kept['net'])",
        "kept = dd.load('x.pt', weights_only=True)",
    ),
    "a whole model": (
        "best = torch.load('x.pt').eval()\nprint(best(features).shape)",
        "best = dd.load('x.pt').eval()",
    ),
    "a whole model that is trained on": (
        "kept = torch.load('x.pt')\nbest = kept['net']\n"
        "other = torch.optim.SGD(best.parameters(), lr=0.1)",
        "kept = dd.load('x.pt')",
    ),
    "to(name)": ("labels = labels.to('cuda:0')", "labels = labels.to(dd.device())"),
    "a name for the text": (
        "d = 'cuda:0' if torch.cuda.is_available() else 'cpu'\nlabels = labels.to(d)",
        "d = dd.device()",
    ),
    "text that is printed too": (
        "d = 'cuda:0'\nprint(d)\nlabels = labels.to(d)",
        "labels = labels.to(dd.device())",
    ),
    "an option": (
        "p = argparse.ArgumentParser()\np.add_argument('--place', default='cuda:0')\n"
        "args = p.parse_args()\nd = torch.device(args.place)",
        "d = dd.device(args.place)",
    ),
    "an option for the CPU": (
        "there = torch.cuda.is_available()\nuse = there and input() != 'cpu'\n"
        "d = torch.device('cuda:0' if use else 'cpu')",
        "d = dd.device('cuda:0' if use else 'cpu')",
    ),
    "a function of the script's own by the name of PyTorch's": (
        "def is_available():\n    return input() != 'cpu'\n"
        "d = torch.device('cuda:0' if is_available() else 'cpu')",
        "d = dd.device('cuda:0' if is_available() else 'cpu')",
    ),
    "a name that a class is made of too": (
        "d = 'cuda:0'\nlabels = labels.to(d)\nclass Odd(d):\n    pass",
        "labels = labels.to(dd.device())",
    ),
    "a name for what is there": (
        "use = torch.cuda.is_available()\nd = torch.device('cuda:0' if use else 'cpu')",
        "d = dd.device()",
    ),
}


@pytest.mark.parametrize("name", DEVICES)
def test_hard_coded_devices(tmp_path: Path, name: str) -> None:
    code, expected = DEVICES[name]
    assert expected in added(tmp_path, "import argparse\n" + HEAD + code + "\n" + STEP)


@pytest.mark.parametrize(
    "code",
    [
        "labels = torch.load('labels.pt')['y']",
        "class Table:\n    def eval(self): pass\ntable = torch.load('table.pt')\ntable.eval()",
        "brain.load_state_dict(torch.load('x.pt', map_location=torch.device('cpu')))",
        "d = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "d = torch.device('cpu')",
        "d = 'cuda' if torch.cuda.is_available() else 'cpu'\nlabels = labels.to(d)",
        "post.to('bob')",
        "labels = labels.to(torch.float64)",
    ],
)
def test_devices_that_follow_the_rank_are_left_alone(tmp_path: Path, code: str) -> None:
    head = HEAD + "class Post:\n    def to(self, whom):\n        pass\npost = Post()\n"
    assert added(tmp_path, head + code + "\n" + STEP) == added(tmp_path, head + STEP)


def test_the_choice_of_a_device_for_the_process_is_dropped(tmp_path: Path) -> None:
    removed, _ = changed_lines(convert_text(tmp_path, HEAD + "torch.cuda.set_device(0)\n" + STEP))
    assert "torch.cuda.set_device(0)" in removed


def test_formatting_comments_quotes_and_encoding_survive(tmp_path: Path) -> None:
    text = (
        "# -*- coding: latin-1 -*-\n"
        + HEAD
        + "name = 'caf\u00e9'   # d\u00e9j\u00e0  vu\r\n"
        + STEP
    )
    script = tmp_path / "script.py"
    script.write_bytes(text.encode("latin-1"))
    from ddpify.convert import convert_file

    data = convert_file(script).data
    assert "name = 'caf\u00e9'   # d\u00e9j\u00e0  vu\r\n".encode("latin-1") in data


LOOK = """\
def look(noise):
    return brain(noise)


for a, b in feed:
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
    torch.save(look({}), "look.pt")
"""


def test_rows_that_all_ranks_hold_are_computed_in_parts(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + LOOK.format("torch.ones(8, 4)"))
    assert "return dd.spread(brain)(noise)" in lines


def test_rows_of_a_batch_are_parts_already(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + LOOK.format("a"))
    assert not any("spread" in line for line in lines)


def test_data_parallel_around_any_model_goes(tmp_path: Path) -> None:
    text = HEAD + "teacher = nn.Linear(4, 3)\nif torch.cuda.device_count() > 1:\n"
    text += "    brain = nn.DataParallel(brain)\n    teacher = nn.DataParallel(teacher)\n"
    loop = STEP.replace("brain(a), b)", "brain(a), b) + (teacher(a) - brain(a)).pow(2).mean()")
    done = convert_text(tmp_path, text + loop).data.decode()
    assert "DataParallel" not in done and "device_count" not in done
    assert "teacher = nn.Linear(4, 3)\nbrain = dd.wrap(brain)\n" in done


POOL = """\
class Pool:
    def __init__(self):
        self.kept = []

    def swap(self, rows):
        found = []
        for row in rows:
            self.kept.append(row.detach())
            found.append(self.kept.pop(0) if len(self.kept) > 5 else row)
        return torch.stack(found)


pool = Pool()
for a, b in feed:
    rule.zero_grad()
    penalty = F.cross_entropy(brain(pool.swap(a)), b)
    penalty.backward()
    rule.step()
"""


def test_what_keeps_single_rows_works_on_the_whole_batch(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + POOL)
    assert lines[-1] == (
        "penalty = dd.mean(F.cross_entropy(brain(dd.split(pool.swap(dd.gather(a)))), b))"
    )


WHOLE_POOL = """\
class Pool:
    def __init__(self):
        self.kept = []

    def swap(self, rows):
        if len(self.kept) < 3:
            self.kept.append(rows)
        elif torch.rand(1).item() > 0.5:
            old = self.kept[0].clone()
            self.kept[0] = rows
            return old
        return rows


"""


def test_what_keeps_whole_batches_works_on_those(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + WHOLE_POOL + POOL[POOL.index("pool =") :])
    assert lines[-1] == (
        "penalty = dd.mean(F.cross_entropy(brain(dd.split(pool.swap(dd.gather(a)))), b))"
    )


HOLDER = """\
import torchvision


class Held:
    def __init__(self):
        {0}


held = Held()
"""


def test_what_also_holds_loaders_is_made_by_all_ranks_together(tmp_path: Path) -> None:
    """A loader takes part in collectives: only the download itself waits for one rank."""
    made = HOLDER.format("self.data = torchvision.datasets.MNIST('data', download=True)")
    done = convert_text(tmp_path, made + HEAD + STEP).data.decode()
    assert "        with dd.local_main_first():\n            self.data = torchvision" in done
    assert "\nheld = Held()\n" in done


def test_a_data_set_that_downloads_is_made_by_one_rank_first(tmp_path: Path) -> None:
    """What it unpacks and writes is there for the others: no collective of theirs may wait."""
    made = HOLDER.replace("class Held", "class Held(torch.utils.data.Dataset)").format(
        "torch.hub.download_url_to_file('http://x', 'x')\n        torch.save([1], 'unpacked.pt')"
    )
    done = convert_text(tmp_path, "import torch\n" + made + HEAD + STEP).data.decode()
    assert "with dd.local_main_first():\n    held = Held()\n" in done
    assert "        torch.save([1], 'unpacked.pt')\n" in done


def test_a_file_and_what_is_written_into_it_have_one_guard(tmp_path: Path) -> None:
    text = "with open('options.json', 'w') as f:\n    json.dump({}, f)\n"
    done = convert_text(tmp_path, "import json\n" + HEAD + text + STEP).data.decode()
    assert "if dd.is_main():\n    with open('options.json', 'w') as f:\n        json.dump" in done


def test_elements_are_counted_over_all_ranks(tmp_path: Path) -> None:
    text = HEAD + "seen = 0\n" + STEP + "    seen += b.nelement()\nprint(seen)\n"
    assert "seen += dd.sum(b.nelement())" in added(tmp_path, text)


def test_a_download_in_a_function_of_its_own_waits_where_that_is_called(tmp_path: Path) -> None:
    made = (
        "import torchvision\n\n\ndef get(name):\n"
        "    known = {'a': lambda: torchvision.datasets.MNIST('data', download=True)}\n"
        "    return known[name]()\n\n\nheld = get('a')\n"
    )
    done = convert_text(tmp_path, made + HEAD + STEP).data.decode()
    assert "with dd.local_main_first():\n    held = get('a')\n" in done
    assert done.count("local_main_first") == 1


CHOSEN_DATA = """\
import sys
import torchvision


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.held = torchvision.datasets.MNIST("data", download=True)

    def __getitem__(self, index):
        return self.held[index]


class Pages(DataLoader):
    def __init__(self):
        self.held = {held}
        super().__init__(whole, batch_size=10)


made = {{"pictures": Pictures, "pages": Pages}}


def build(name):
    return made[name]()


def main(name):
    feed = build(name)
    for a, b in feed:
        F.cross_entropy(brain(a), b).backward()
        rule.step()


main(sys.argv[1])
"""


@pytest.mark.parametrize("held", ["Pictures()", "torchvision.datasets.MNIST('x', download=True)"])
def test_no_rank_trains_before_the_others(tmp_path: Path, held: str) -> None:
    """A call that may make a data set or a loader leads out of what one rank can do alone."""
    text = HEAD + CHOSEN_DATA.format(held=held)
    done = convert_text(tmp_path, text).data.decode()
    assert "\nmain(sys.argv[1])\n" in done
    assert done.count("with dd.local_main_first():\n            self.held = ") >= 1
    assert "with dd.local_main_first():\n    main" not in done


def test_a_device_for_a_block_is_the_ranks_own(tmp_path: Path) -> None:
    text = (
        HEAD
        + "with torch.cuda.device(0):\n"
        + "".join(f"    {line}\n" for line in STEP.splitlines())
    )
    assert "with torch.cuda.device(-1):" in added(tmp_path, text)


OPTIMIZED = {
    "filtered": "filter(lambda p: p.requires_grad, brain.parameters())",
    "yielded": "[{'params': weights(brain)}, {'params': brain.bias, 'lr': 0.2}]",
}


@pytest.mark.parametrize("name", OPTIMIZED)
def test_parameters_are_followed_to_their_model(tmp_path: Path, name: str) -> None:
    text = HEAD.replace("brain.parameters()", OPTIMIZED[name])
    text = text.replace(
        "brain =",
        "def weights(net):\n    for m in net.modules():\n        yield m.weight\n\n\nbrain =",
    )
    assert "brain = dd.wrap(nn.Linear(4, 3))" in added(tmp_path, text + STEP)


def test_a_model_that_a_collection_keeps_is_wrapped_where_it_is_made(tmp_path: Path) -> None:
    made = "nets = {'a': nn.Linear(4, 3)}\nbrain = nets['a']"
    lines = added(tmp_path, HEAD.replace("brain = nn.Linear(4, 3)", made) + STEP)
    assert [line for line in lines if "wrap" in line] == ["nets = {'a': dd.wrap(nn.Linear(4, 3))}"]


def test_a_model_from_a_module_by_a_computed_name(tmp_path: Path) -> None:
    made = "brain = importlib.import_module('models.' + input()).Net(4)"
    text = "import importlib\n" + HEAD.replace("brain = nn.Linear(4, 3)", made) + STEP
    assert any("dd.wrap(" in line for line in added(tmp_path, text))


def test_parameters_that_are_frozen_by_their_number(tmp_path: Path) -> None:
    made = (
        "brain = nn.Linear(4, 3)\nfor i, (name, p) in enumerate(brain.named_parameters()):\n"
        "    p.requires_grad = i > 0"
    )
    lines = added(tmp_path, HEAD.replace("brain = nn.Linear(4, 3)", made) + STEP)
    assert [line for line in lines if "wrap" in line] == ["brain = dd.wrap(brain)"]


FROZEN = {
    "by a method": "for name, p in brain.named_parameters():\n    p.requires_grad_('bias' in name)",
    "in a list": "[p.requires_grad_(True) for p in brain.parameters() if p.dim() < 3]",
    "by the layers": "for m in list(brain.modules())[:1]:\n    for p in m.parameters():\n"
    "        p.requires_grad = True",
    "whole layers": "for m in brain.children():\n    m.requires_grad_(True)",
    "one of a layer": "for m in brain.modules():\n    m.weight.requires_grad_(True)",
    "of two": "for p, q in zip(brain.parameters(), list(features)):\n    p.requires_grad = True",
    "of several": "import itertools\nfor p in itertools.chain(brain.parameters()):\n"
    "    p.requires_grad_(True)",
}


@pytest.mark.parametrize("way", FROZEN)
def test_a_model_is_wrapped_by_its_name_after_a_loop_over_its_parts(
    tmp_path: Path, way: str
) -> None:
    made = "brain = nn.Linear(4, 3)\n" + FROZEN[way]
    lines = added(tmp_path, HEAD.replace("brain = nn.Linear(4, 3)", made) + STEP)
    assert [line for line in lines if "wrap" in line] == ["brain = dd.wrap(brain)"]


def test_a_size_is_compared_with_that_of_the_whole_batch(tmp_path: Path) -> None:
    text = HEAD + STEP.replace(
        "    rule.zero", "    if len(a) is not 6:\n        continue\n    rule.zero"
    )
    assert "if dd.global_batch_size(a) is not 6:" in added(tmp_path, text)


def test_rows_are_gathered_before_they_are_appended(tmp_path: Path) -> None:
    text = "import numpy as np\n" + HEAD + "seen = np.array([])\n" + STEP
    text += "    seen = np.append(seen, b.numpy())\nprint(seen)\n"
    assert "seen = np.append(seen, dd.gather(b.numpy()))" in added(tmp_path, text)


def test_a_model_is_wrapped_where_the_script_gets_it_not_where_it_asks_for_a_part(
    tmp_path: Path,
) -> None:
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n\n\ndef get(kind):\n"
        "    if kind == 'a':\n        net = nn.Sequential(nn.Linear(4, 3))\n"
        "    else:\n        net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())\n    return net\n"
    )
    text = HEAD.replace("brain = nn.Linear(4, 3)", "brain = get('a')")
    text = "from nets import get\n" + text
    text = text.replace(
        "brain =",
        "def show():\n    last = list(brain.children())[-1]\n    print(last)\n\n\nbrain =",
    )
    lines = added(tmp_path, text + STEP)
    assert [line for line in lines if "wrap" in line] in (
        ["brain = dd.wrap(get('a'))"],
        ["brain = dd.wrap(brain)"],
    )


def test_the_start_leaves_a_comment_above_the_line_that_it_is_about(tmp_path: Path) -> None:
    text = HEAD.replace("features, labels =", "# what it learns from\nfeatures, labels =", 1) + STEP
    after = convert_text(tmp_path, text).data.decode()
    assert "dd.init()\n\n# what it learns from\nfeatures, labels = " in after


FETCHED = """\
import os, tarfile, urllib.request


class Texts:
    @classmethod
    def fetch(cls, root):
        if not os.path.isdir(root):
            urllib.request.urlretrieve("x", root + ".tar")
            with tarfile.open(root + ".tar") as packed:
                packed.extractall(root)
        return root


root = Texts.fetch("texts")
"""


def test_one_rank_goes_first_in_one_place(tmp_path: Path) -> None:
    lines = added(tmp_path, FETCHED + HEAD + STEP)
    first = lines.index("with dd.local_main_first():")
    assert lines[first + 1] == "if not os.path.isdir(root):"
    assert lines.count("with dd.local_main_first():") == 1


def test_blank_lines_in_a_new_block_are_empty(tmp_path: Path) -> None:
    sets = "from torchvision.datasets import MNIST\na = MNIST('x', download=True)\n\n# tests\nb = "
    text = HEAD + STEP + sets + "MNIST('x', train=False, download=True)\n"
    assert (
        ", download=True)\n\n    # tests\n    b = MNIST"
        in convert_text(tmp_path, text).data.decode()
    )


EITHER = """\
class One(nn.Linear):
    pass


class Other(nn.Linear):
    pass


def placed(model, on_gpu):
    return model.cuda() if on_gpu else model


class Solver:
    def __init__(self, kind):
        made = One if kind == "one" else Other
        self.net = placed(made(4, 3), torch.cuda.is_available())


solver = Solver("other" if len(feed) else "one")
rule = torch.optim.SGD(solver.net.parameters(), lr=0.1)
"""


def test_either_of_two_models_is_wrapped_where_an_attribute_gets_it(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + EITHER + STEP.replace("brain(a)", "solver.net(a)"))
    assert "self.net = dd.wrap(self.net)" in lines


def test_what_all_ranks_run_stands_before_a_write(tmp_path: Path) -> None:
    own = """\
from torchvision.utils import save_image


def bright(x):
    return (x + 1) / 2


whole = 3
"""
    text = HEAD.replace("import torch\n", "import torch\n" + own, 1) + STEP
    text += "    save_image(bright(brain(a)), 'batch.png', nrow=whole)\n"
    lines = added(tmp_path, text + "save_image(bright(features), 'all.png')\n")
    assert lines[-6:] == [
        "whole_2 = dd.gather(bright(brain(a)))",
        "if dd.is_main():",
        "save_image(whole_2, 'batch.png', nrow=whole)",
        "made = bright(features)",
        "if dd.is_main():",
        "save_image(made, 'all.png')",
    ]


FREEZING = """\
def freeze(model, on):
    for one in model.parameters():
        one.requires_grad = on


"""


def test_a_helper_that_freezes_any_model_wraps_none(tmp_path: Path) -> None:
    step = STEP.replace("    rule.zero", "    freeze(brain, True)\n    rule.zero")
    lines = added(tmp_path, FREEZING + HEAD + step)
    assert [line for line in lines if "wrap" in line] == ["brain = dd.wrap(nn.Linear(4, 3))"]


LAYERS = """\
class Layer(nn.Linear):
    def __init__(self, size):
        super().__init__(size, 4)
        self.rule = torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(self, x):
        loss = self.forward(x).pow(2).mean()
        self.rule.zero_grad()
        loss.backward()
        self.rule.step()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        for _ in range(2):
            self.layers += [Layer(4).to("cpu")]


net = Net()
for a, b in feed:
    for layer in net.layers:
        layer.fit(a)
"""


def test_modules_in_a_plain_list_are_models_of_their_own(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + LAYERS)
    assert 'self.layers += [dd.wrap(Layer(4).to("cpu"))]' in lines
    assert not any(line.startswith("net = ") for line in lines)


def test_a_part_that_another_model_gets_later_belongs_to_the_first(tmp_path: Path) -> None:
    text = HEAD.replace(
        "brain = nn.Linear(4, 3)\n",
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = nn.Linear(4, 3)\n\n\n"
        "old = Net()\nnew = Net()\nbrain = new.inner\n",
    )
    lines = added(tmp_path, text + STEP + "old.inner = brain\ntorch.save(old, 'old.pt')\n")
    assert [line for line in lines if "wrap" in line] == ["new = dd.wrap(Net())"]


def test_models_that_a_comprehension_makes_and_moves_are_wrapped_one_by_one(
    tmp_path: Path,
) -> None:
    made = "brains = [nn.Linear(n, 3).to('cpu') for n in (4, 4)]"
    start, rule = "brain = nn.Linear(4, 3)\n", "rule = torch"
    text = HEAD.replace(start, f"{made}\nfor brain in brains:\n").replace(rule, f"    {rule}")
    steps = "".join(f"    {line}\n" for line in STEP.splitlines())
    lines = added(tmp_path, text + steps)
    wrapped = "brains = [dd.wrap(nn.Linear(n, 3).to('cpu')) for n in (4, 4)]"
    assert [line for line in lines if "wrap" in line] == [wrapped]


def test_the_loss_that_apex_scales(tmp_path: Path) -> None:
    scaled = "with amp.scale_loss(penalty, rule) as scaled:\n        scaled.backward()"
    text = "from apex import amp\n" + HEAD + STEP.replace("penalty.backward()", scaled)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in added(tmp_path, text)


def test_a_batch_that_is_known_to_be_a_list_is_as_long_as_it_has_parts(tmp_path: Path) -> None:
    text = HEAD + STEP.replace(
        "for a, b in feed:\n",
        "for a in feed:\n    b = None\n    if isinstance(a, (list, tuple)):\n"
        "        if len(a) > 1:\n            b = a[1]\n        a = a[0]\n",
    )
    assert not any("global_batch_size" in line for line in added(tmp_path, text))


def test_the_old_way_to_ask_an_iterator(tmp_path: Path) -> None:
    text = HEAD + STEP.replace(
        "for a, b in feed:\n", "more = iter(feed)\nfor step in range(3):\n    a, b = more.next()\n"
    )
    lines = added(tmp_path, text)
    assert any(line.startswith("feed = dd.shard(DataLoader(") for line in lines)
    assert not any("shard_batch" in line for line in lines)


def test_a_model_that_one_branch_moves_and_the_other_reads_is_wrapped_on_both(
    tmp_path: Path,
) -> None:
    branch = """\
if torch.cuda.is_available():
    brain.cuda()
else:
    print(sum(p.numel() for p in brain.parameters()))
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
    text = convert_text(tmp_path, HEAD[: HEAD.index("rule =")] + branch + STEP).data.decode()
    assert "\nbrain = dd.wrap(brain)\nrule =" in text


def test_data_parallel_of_one_branch_leaves_the_other_wrapped_too(tmp_path: Path) -> None:
    branch = """\
if torch.cuda.device_count() > 1:
    brain = nn.DataParallel(brain)
    trained = list(brain.module.parameters())
else:
    trained = list(brain.parameters())
rule = torch.optim.SGD(trained, lr=0.1)
"""
    lines = added(tmp_path, HEAD[: HEAD.index("rule =")] + branch + STEP)
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines
    assert sum("dd.wrap" in line for line in lines) == 1


def test_what_is_written_into_memory_is_written_on_every_rank(tmp_path: Path) -> None:
    written = """\
import io
import matplotlib.pyplot as plt
page = io.BytesIO()
plt.savefig(page, format="png")
torch.save(brain.state_dict(), page)
"""
    lines = added(tmp_path, HEAD + STEP + written)
    assert not any("is_main" in line or "dd.save" in line for line in lines)


def test_a_layer_that_is_frozen_by_the_epoch(tmp_path: Path) -> None:
    step = "".join(f"    {line}\n" for line in STEP.splitlines())
    loop = "for epoch in range(2):\n    brain.bias.requires_grad = epoch < 1\n" + step
    lines = added(tmp_path, HEAD + loop)
    assert [line for line in lines if "wrap" in line] == ["brain = dd.wrap(nn.Linear(4, 3))"]


def test_a_log_file_is_flushed_to_the_disk_by_rank_0_alone(tmp_path: Path) -> None:
    """The null device, which other ranks write to, cannot be."""
    logged = """\
import os
log = open("log.txt", "w")
for a, b in check:
    log.write("x")
    log.flush()
    os.fsync(log.fileno())
"""
    lines = added(tmp_path, HEAD + STEP + logged)
    assert lines[-2:] == ["if dd.is_main():", "os.fsync(log.fileno())"]


@pytest.mark.parametrize("known", [True, False])
def test_a_forward_gives_a_librarys_function_a_ranks_rows_if_it_is_known(
    tmp_path: Path, known: bool
) -> None:
    name = "flash_attn_func" if known else "other_func"
    text = HEAD.replace("import torch\n", f"import torch\nfrom flash_attn import {name}\n", 1)
    net = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 3)

    def forward(self, x):
        h = self.one(x)
        return FUNCTION(h, h, h)


""".replace("FUNCTION", name)
    text = text.replace("brain = nn.Linear(4, 3)\n", net + "brain = Net()\n")
    step = STEP + "    z = brain(a)\n    print(z.size(0), z.mean().item())\n"
    lines = added(tmp_path, text + step)
    assert ("print(dd.global_batch_size(z), dd.mean(z.mean()).item())" in lines) is known
    assert (f"return {name}(dd.gather(h), dd.gather(h), dd.gather(h))" in lines) is not known


def test_the_script_s_own_sampler_stays_with_distributed_order(tmp_path: Path) -> None:
    own = "batch_sampler=torch.utils.data.BatchSampler(range(6), 6, False))"
    text = HEAD.replace("batch_size=6, shuffle=True)", own)
    assert text != HEAD
    found = convert_text(tmp_path, text + STEP, sampler="distributed")
    assert 'sampler="distributed"' not in found.data.decode()
    assert any("it keeps the sampler" in note.text for note in found.notes)
    plain = convert_text(tmp_path, HEAD + STEP, sampler="distributed")
    assert 'sampler="distributed"' in plain.data.decode()
