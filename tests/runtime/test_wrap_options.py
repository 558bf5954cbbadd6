"""wrap(): options of DistributedDataParallel, and of what the forward computes in."""

import copy
import pickle
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.hooks import counting
from tests.runtime.ranks import assert_same, run


class Net(nn.Module):
    """Layers with BatchNorm, one of which is never used; two outputs in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 64), nn.BatchNorm1d(64), nn.Linear(64, 1))
        self.spare = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """x: (N, 4)."""
        return {"out": self.layers(x), "rows": x}


def _batches() -> Any:
    generator = torch.Generator().manual_seed(1)
    return dd.shard(DataLoader(torch.randn(22, 4, generator=generator), 5))  # type: ignore[arg-type]


def _trained(dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    torch.manual_seed(3)
    model = dd.wrap(Net().to(dtype), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for i, x in enumerate(_batches()):
        dd.sync_gradients(i % 2 == 1 or i == 4)
        dd.mean(model(x.to(dtype))["out"].pow(2).mean()).backward()
        if i % 2 == 1 or i == 4:
            optimizer.step()
            optimizer.zero_grad()
    return {name: value.clone() for name, value in model.state_dict().items()}


def _with_options() -> Any:
    return [
        _trained(static_graph=True),
        _trained(bucket_cap_mb=0.0001, find_unused_parameters=True),
        _trained(gradient_as_bucket_view=True, static_graph=True),
        _trained(gradient_as_bucket_view=True, find_unused_parameters=True),
        _trained(comm_hook=counting, comm_state=[], find_unused_parameters=True),
    ]


def test_training_is_the_same_with_the_options_of_ddp() -> None:
    assert_same(_with_options)


def _views_of_unused() -> str:
    try:
        _trained(gradient_as_bucket_view=True)
    except RuntimeError as error:
        return str(error)
    return ""


def test_views_of_buckets_that_never_fill_are_an_error() -> None:
    for message in run(_views_of_unused, 2):
        assert "find_unused_parameters=True" in message


def _effects() -> dict[str, Any]:
    """What each option changes."""
    found: dict[str, Any] = {}
    for name, cap in {"one": None, "small": 0.0001}.items():
        sizes: list[int] = []
        model = dd.wrap(
            nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))),
            comm_hook=counting,
            comm_state=sizes,
            bucket_cap_mb=cap,
        )
        for _ in range(2):
            sizes.clear()
            dd.mean(model(dd.shard_batch(torch.randn(6, 8))).mean()).backward()
        found[name] = len(sizes)
    for view in (False, True):
        model = dd.wrap(nn.Linear(4, 1), gradient_as_bucket_view=view)
        dd.mean(model(dd.shard_batch(torch.randn(6, 4))).mean()).backward()
        places = {_place(p.grad) for p in model.parameters()}
        found[f"view {view}"] = len(places)
    return found


def _place(x: Any) -> int:
    place: int = x.untyped_storage().data_ptr()
    return place


def test_what_the_options_of_ddp_change() -> None:
    expected = {"one": 1, "small": 4, "view False": 2, "view True": 1}
    assert run(_effects, 2) == [expected] * 2


def _compressed() -> torch.Tensor:
    model = dd.wrap(nn.Linear(4, 1), comm_hook=fp16_compress_hook)
    dd.mean(model(dd.shard_batch(torch.randn(6, 4))).pow(2).mean()).backward()
    return model.weight.grad  # type: ignore[return-value]


def test_a_hook_compresses_gradients() -> None:
    for grad in run(_compressed, 2):
        assert torch.equal(grad, grad.half().float())


def _in_bfloat16() -> Any:
    torch.manual_seed(3)
    model: Any = dd.wrap(Net().float(), mixed_precision="bfloat16")
    out = model(next(iter(_batches())).float())
    dd.mean(out["out"].mean()).backward()
    copies = [type(copy.deepcopy(model)) is Net, type(pickle.loads(pickle.dumps(model))) is Net]
    inside = []
    model.layers[0].register_forward_hook(lambda _, __, y: inside.append(y.dtype))
    model(torch.zeros(2, 4).float())
    return [out["out"].dtype, inside, model.layers[0].weight.grad.dtype, copies]


def test_a_forward_in_bfloat16() -> None:
    for size in (1, 2):
        for found in run(_in_bfloat16, size):
            narrow = [torch.bfloat16]
            assert found == [torch.float32, narrow, torch.float32, [True, True]]


def test_training_in_bfloat16_is_near_that_of_one_process() -> None:
    (alone,) = run(_narrow, 1)
    (plain,) = run(_plain, 1)
    for found in run(_narrow, 2):
        assert _distance(found, alone) < 0.05 * _distance(alone, {})
    assert not torch.equal(alone["layers.0.weight"], plain["layers.0.weight"])


def _distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return sum(float((x - other.get(name, 0)).double().norm()) for name, x in one.items())


def _narrow() -> Any:
    return _trained(torch.float32, mixed_precision=torch.bfloat16)


def _plain() -> Any:
    return _trained(torch.float32)
