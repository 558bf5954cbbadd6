"""Sharded tensors in a script that knows whole ones: what it does with them is right.

Parameters of a sharded model, their gradients and what is computed from them alone stay in
parts. Where they are read as numbers, or meet plain tensors, the whole takes their place; where
one is changed in a way that parts cannot be, it is put together, changed, and parted again.
"""

from typing import Any

import torch
import torch.distributed as dist

from ddpify.runtime.dtensor import full_tensor, full_tensors, is_dtensor, like_shard
from ddpify.runtime.process import kept

# DTensors would answer with this rank's part, or not at all.
_READERS = frozenset(
    "item tolist numpy equal allclose __bool__ __float__ __int__ __index__ __complex__ __format__"
    " __array__ __contains__ __iter__ unbind".split()
)
# They would draw other numbers than one process does, or have no rule for it.
_FULL_CHANGES = frozenset(
    "__setitem__ normal_ uniform_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_"
    " random_".split()
)
# They fail on, or miscount, ranks whose part is empty or smaller than that of others.
_NEED_EVEN_PARTS = frozenset(
    "max min amax amin aminmax argmax argmin median nanmedian quantile nanquantile mean std var"
    " std_mean var_mean logsumexp histc norm vector_norm".split()
)
_VIEWS = frozenset(
    "__getitem__ __get__ select narrow view view_as reshape flatten unflatten split chunk t"
    " transpose permute squeeze unsqueeze expand swapaxes swapdims movedim diagonal detach".split()
)
_ON_LISTS = ("_foreach", "_fused", "_amp_foreach")
_LOST = "_ddpify_is_a_copy"


def read_as_full() -> None:
    """Let the DTensors of this process be used as the whole tensors that they stand for."""
    from torch.distributed.tensor import DTensor

    DTensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[assignment]
    DTensor.__repr__ = _repr  # type: ignore[method-assign]


def _torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """A call of a function of torch with a DTensor among its arguments."""
    kwargs = kwargs or {}
    name = getattr(func, "__name__", "")
    with torch._C.DisableTorchFunctionSubclass():
        if name in _READERS or (name in _NEED_EVEN_PARTS and _has_uneven_parts(args)):
            return func(*full_tensors(args), **kwargs)
        if name in _FULL_CHANGES or getattr(func, "__module__", "") == "torch.nn.init":
            return _change_full(func, args, kwargs)
        if func == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            return _set_data(func, *args)
        if name in _VIEWS:
            return _view(func, args, kwargs)
        if args and is_dtensor(args[0]) and _changes_first(name):
            return _change(func, args, kwargs)
        if name.startswith(_ON_LISTS):
            return _on_lists(func, args, kwargs)
        if _meets_plain(args, kwargs):
            return func(*full_tensors(args), **full_tensors(kwargs))
        return func(*args, **kwargs)


def _change(func: Any, args: Any, kwargs: Any) -> Any:
    """A change in place of a sharded tensor, by its parts."""
    if hasattr(args[0], _LOST):
        raise RuntimeError(
            "this changes some elements of a sharded tensor through a view, which would be lost: "
            "each rank holds other rows of it; assign to them (p[0] = 1) instead"
        )
    return func(args[0], *(_part_like(value, args[0]) for value in args[1:]), **kwargs)


def _change_full(func: Any, args: Any, kwargs: Any) -> Any:
    """A change in place of which only the whole tensor is capable: drawn or assigned elements."""
    target = args[0] if args else kwargs["tensor"]
    if not is_dtensor(target):
        return func(*full_tensors(args), **full_tensors(kwargs))
    whole = full_tensor(target.detach()).clone()
    if args:
        func(whole, *full_tensors(args[1:]), **full_tensors(kwargs))
    else:
        func(**{**kwargs, "tensor": whole})
    dist.broadcast(kept(whole), src=0)
    target.detach().copy_(like_shard(whole, target))
    return target


def _on_lists(func: Any, args: Any, kwargs: Any) -> Any:
    """A call for many tensors at once: of a model with plain parameters too, one for each kind."""
    first = args[0] if args and isinstance(args[0], (tuple, list)) else []
    kinds = [is_dtensor(tensor) for tensor in first]
    if all(kinds) or not any(kinds):
        return func(*args, **kwargs)
    results: list[Any] = [None] * len(kinds)
    for kind in (False, True):
        chosen = [at for at, own in enumerate(kinds) if own is kind]

        def picked(value: Any, chosen: list[int] = chosen) -> Any:
            parallel = isinstance(value, (tuple, list)) and len(value) == len(kinds)
            return [value[at] for at in chosen] if parallel else value

        made = func(*map(picked, args), **{key: picked(value) for key, value in kwargs.items()})
        for at, result in zip(chosen, made or (), strict=bool(made)):
            results[at] = result
    return results if results[0] is not None else None


def _set_data(func: Any, tensor: Any, value: torch.Tensor) -> None:
    """``p.data = value``: to a DTensor torch's own would do nothing."""
    if is_dtensor(tensor) and (value.shape, value.dtype) == (tensor.shape, tensor.dtype):
        tensor.detach().copy_(_part_like(value, tensor))
    else:
        func(tensor, value)


def _view(func: Any, args: Any, kwargs: Any) -> Any:
    """What would be a view; remembered where it is a copy, changes of which would be lost."""
    if _meets_plain(args, kwargs):  # a plain tensor as an index
        return func(*full_tensors(args), **full_tensors(kwargs))
    result = func(*args, **kwargs)
    source: Any = args[0]
    for made in result if isinstance(result, (tuple, list)) else (result,):
        if is_dtensor(made) and (hasattr(source, _LOST) or not _share_memory(source, made)):
            setattr(made, _LOST, True)
    return result


def _share_memory(one: Any, other: Any) -> bool:
    memory = [tensor._local_tensor.untyped_storage().data_ptr() for tensor in (one, other)]
    return bool(memory[0] == memory[1])


def _has_uneven_parts(args: Any) -> bool:
    first: Any = args[0] if args else None
    return is_dtensor(first) and _is_uneven(first)


def _is_uneven(part: Any) -> bool:
    size = part.device_mesh.size()
    return any(p.is_shard() and part.shape[p.dim] % size for p in part.placements)


def _meets_plain(args: Any, kwargs: Any) -> bool:
    """Whether there is a plain tensor among the arguments too."""
    return any(map(_holds_plain, args)) or any(map(_holds_plain, kwargs.values()))


def _holds_plain(value: Any) -> bool:
    if type(value) in (tuple, list):
        return any(map(_holds_plain, value))
    return isinstance(value, torch.Tensor) and not is_dtensor(value)


def _changes_first(name: str) -> bool:
    """Whether a function of this name changes its first argument: ``add_``, ``p.grad = ...``."""
    if name.endswith("__"):
        return name.startswith("__i") or name == "__set__"
    return name.endswith("_")


def _part_like(value: Any, like: Any) -> Any:
    """A whole tensor in parts; a scalar, and anything else, as it is."""
    if isinstance(value, torch.Tensor) and not is_dtensor(value) and value.dim() > 0:
        return like_shard(value.expand(like.shape), like)
    return value


def _repr(self: Any, **options: Any) -> str:
    """As the whole is printed."""
    whole = full_tensor(self.detach())
    if getattr(self, "_is_param", False):
        return repr(torch.nn.Parameter(whole, requires_grad=self.requires_grad))
    if self.grad_fn is not None:
        return f"{repr(whole)[:-1]}, grad_fn=<{self.grad_fn.name()}>)"
    return repr(whole.requires_grad_(self.requires_grad))
