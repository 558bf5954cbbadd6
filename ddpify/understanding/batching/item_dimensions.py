"""How many dimensions the parts of a loader's batches have, as far as the data set shows it.

The tensors of a data set are followed to the calls that make them: ``torch.randn(100, 8)`` has two
dimensions, and so has a batch of its rows. Where a step is not understood, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from ddpify.understanding.liveness import assigned
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import UNPACKED, argument, code_of
from ddpify.understanding.values import UNKNOWN, Class, Data, Instance, Value

_UNKNOWN = 0
_DEEPEST = 12  # names and calls that lead from a part of a batch to what makes it
_BY_SIZES = frozenset("randn rand zeros ones empty".split())
_BY_ONE_SIZE = frozenset("randn rand zeros ones empty full randint normal uniform".split())
_FROM_LISTS = frozenset("tensor array as_tensor asarray FloatTensor LongTensor".split())
_LINES = frozenset("arange linspace logspace randperm".split())
_SUBSETS = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
_OF_PAIRS = "torchvision.datasets."
_WITH_PARTS = (cst.Tuple, cst.Dict)
_TENSORS = ("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")


def of_part(batch: Data, position: int) -> int:
    """The dimensions of one part of a batch of unknown structure; 0 where they are not known."""
    found = {_of_loader(loader, position) for loader in batch.loaders}
    return found.pop() if len(found) == 1 else _UNKNOWN


def of_sample(sample: Data, position: int) -> int:
    """The dimensions of one part of a sample; 0 where they are not known, or it has none."""
    return max(of_samples(sample, position) - 1, 0)


def of_samples(samples: Data, position: int) -> int:
    """The dimensions of one part of samples that are put side by side; 0 where not known."""
    found = {_of_samples(loader, position) for loader in samples.loaders}
    return found.pop() if len(found) == 1 else _UNKNOWN


def parts_of_samples(loader: Instance) -> int:
    """The number of parts that a data set's samples have; 0 where it is not known."""
    found = {_parts(one) for one in _held(loader.arguments.get("dataset"))}
    return found.pop() if len(found) == 1 else _UNKNOWN


def has_parts(loader: Instance) -> bool:
    """Whether each sample of a data set surely is a tuple or a dictionary."""
    held = list(_held(loader.arguments.get("dataset")))
    return bool(held) and all(_has_parts(one, _DEEPEST) for one in held)


def of_expression(node: cst.BaseExpression, module: ModuleFile) -> int:
    """The dimensions of a tensor by the expression that makes it; 0 where they are not known."""
    known = module.dimensions
    if node not in known:
        known[node] = _of(node, module, None, _DEEPEST)
    return known[node]


def _of_loader(loader: Instance, position: int) -> int:
    arguments = loader.arguments
    whole = "batch_size" in arguments and arguments["batch_size"].constant() is None
    if whole or "collate_fn" in arguments or "**" in arguments:
        return _UNKNOWN
    return _of_samples(loader, position)


def _of_samples(loader: Instance, position: int) -> int:
    """The dimensions of samples' parts that are put side by side."""
    arguments = loader.arguments
    found = {_of_data_set(one, position, _DEEPEST) for one in _held(arguments.get("dataset"))}
    return found.pop() if len(found) == 1 else _UNKNOWN


def _held(data_sets: Value | None) -> Iterator[Instance | None]:
    for atom in (data_sets or UNKNOWN).atoms:
        yield atom if isinstance(atom, Instance) else None


def _of_data_set(made: Instance | None, position: int, left: int) -> int:
    """The dimensions of a batch of one of the parts of a data set's samples."""
    if made is None or not left:
        return _UNKNOWN
    if made.kind in _SUBSETS:
        inner = {_of_data_set(one, position, left - 1) for one in _held(made.arguments.get("0"))}
        return inner.pop() if len(inner) == 1 else _UNKNOWN
    if made.kind in _TENSORS and isinstance(made.site, cst.Call):
        plain = all(one.keyword is None and not one.star for one in made.site.args)
        if plain and position < len(made.site.args):
            return _of(made.site.args[position].value, made.module, None, left)
    if isinstance(made.type, Class):
        return _of_own(made, made.type, position, left)
    return _UNKNOWN


def _parts(made: Instance | None) -> int:
    """The number of parts of a data set's samples."""
    if made is not None and made.kind in _TENSORS and isinstance(made.site, cst.Call):
        plain = all(one.keyword is None and not one.star for one in made.site.args)
        return len(made.site.args) if plain else _UNKNOWN
    if made is not None and isinstance(made.type, Class):
        return len(_returned(made.type))
    return _UNKNOWN


def _has_parts(made: Instance | None, left: int) -> bool:
    if made is None or not left:
        return False
    if made.kind in _SUBSETS:
        inner = list(_held(made.arguments.get("0")))
        return bool(inner) and all(_has_parts(one, left - 1) for one in inner)
    if isinstance(made.type, Class):
        returned = _all_returned(made.type)
        return bool(returned) and all(isinstance(one, _WITH_PARTS) for one in returned)
    return made.kind in _TENSORS or str(made.kind).startswith(_OF_PAIRS)


def _of_own(made: Instance, kind: Class, position: int, left: int) -> int:
    """The same of a class whose ``__getitem__`` returns ``self.x[i], self.y[i]``."""
    parts = _returned(kind)
    if position >= len(parts):
        return _UNKNOWN
    shown = parts[position].value
    one = _of(shown, kind.module, made, left - 1)
    number = _is_a_number(shown) or _is_one_of_a_line(shown, kind.module, made, left - 1)
    return one + 1 if one or number else _UNKNOWN


def _returned(kind: Class) -> Sequence[cst.BaseElement]:
    """The parts of the tuple that ``__getitem__`` returns; none where that is not known.

    It may return None instead, which a collate function leaves out.
    """
    returned = _all_returned(kind)
    alone = len(returned) == 1
    return returned[0].elements if alone and isinstance(returned[0], cst.Tuple) else ()


def _all_returned(kind: Class) -> list[cst.BaseExpression]:
    """What the one ``__getitem__`` of a class returns, wherever it is not None."""
    getters = [one for one in _methods(kind) if one.name.value == "__getitem__"]
    return [
        node.value
        for getter in (getters if len(getters) == 1 else ())
        for node in walk(getter.body)
        if isinstance(node, cst.Return) and node.value is not None and not _is_none(node.value)
    ]


def _is_none(returned: cst.BaseExpression) -> bool:
    return isinstance(returned, cst.Name) and returned.value == "None"


def _is_a_number(part: cst.BaseExpression) -> bool:
    return isinstance(part, cst.Call) and code_of(part.func) in ("int", "float")


def _is_one_of_a_line(
    part: cst.BaseExpression, module: ModuleFile, owner: Instance, left: int
) -> bool:
    """Whether this is ``labels[i]`` of a tensor of one dimension, by a single position."""
    if not isinstance(part, cst.Subscript) or len(part.slice) != 1:
        return False
    index = part.slice[0].slice
    single = isinstance(index, cst.Index) and isinstance(index.value, (cst.Name, cst.Integer))
    plain = single and not _may_be_a_tensor(index.value, module)  # type: ignore[attr-defined]
    return plain and _of(part.value, module, owner, left) == 1


def _methods(kind: Class) -> Iterator[cst.FunctionDef]:
    yield from (one for one in kind.node.body.body if isinstance(one, cst.FunctionDef))


def _of(node: cst.BaseExpression, module: ModuleFile, owner: Instance | None, left: int) -> int:
    """The dimensions of a tensor by its expression, perhaps in a method of ``owner``."""
    if not left:
        return _UNKNOWN
    if isinstance(node, cst.Call):
        return _of_call(node, module, owner, left - 1)
    if isinstance(node, cst.Subscript):
        return _of_item(node, module, owner, left - 1)
    if isinstance(node, cst.BinaryOperation):
        sides = {_of(side, module, owner, left - 1) for side in (node.left, node.right)}
        return max(sides) if _UNKNOWN not in sides else _beside_number(node, module, owner, left)
    if isinstance(node, (cst.Name, cst.Attribute)):
        return _of_name(node, module, owner, left - 1)
    return _UNKNOWN


def _beside_number(
    node: cst.BinaryOperation, module: ModuleFile, owner: Instance | None, left: int
) -> int:
    tensors = [s for s in (node.left, node.right) if not isinstance(s, (cst.Integer, cst.Float))]
    return _of(tensors[0], module, owner, left - 1) if len(tensors) == 1 else _UNKNOWN


def _of_call(node: cst.Call, module: ModuleFile, owner: Instance | None, left: int) -> int:
    if not isinstance(node.func, cst.Attribute):
        return _UNKNOWN
    name, plain = node.func.attr.value, [a for a in node.args if a.keyword is None]
    if any(one.star for one in node.args):
        return _UNKNOWN
    if name in _LINES:
        return 1
    if name in _BY_ONE_SIZE:
        size = argument(node, "size")
        sizes = [size] if size else [a for a in plain if isinstance(a.value, (cst.Tuple, cst.List))]
        if len(sizes) == 1 and isinstance(sizes[0].value, (cst.Tuple, cst.List)):
            return len(sizes[0].value.elements)
        return len(plain) if name in _BY_SIZES and not size else _UNKNOWN
    if name in _FROM_LISTS and plain and isinstance(plain[0].value, cst.List):
        return _nesting(plain[0].value)
    if name in ("view", "reshape") and plain and code_of(node.func.value) not in ("torch", "np"):
        alone = isinstance(plain[0].value, (cst.Tuple, cst.List))
        return len(plain[0].value.elements) if alone else len(plain)  # type: ignore[attr-defined]
    inner = _of(node.func.value, module, owner, left)
    if not inner:
        return _UNKNOWN
    if name == "unsqueeze":
        return inner + 1
    return inner if dimensions.keeps(name) else _UNKNOWN


def _nesting(shown: cst.BaseExpression) -> int:
    """How deep lists of numbers lie in each other."""
    if not isinstance(shown, cst.List):
        return 0
    inner = {_nesting(one.value) for one in shown.elements}
    return 1 + max(inner, default=0)


def _of_item(node: cst.Subscript, module: ModuleFile, owner: Instance | None, left: int) -> int:
    inner = _of(node.value, module, owner, left)
    one = node.slice[0].slice
    if not inner or len(node.slice) != 1:
        return _UNKNOWN
    if isinstance(one, cst.Slice):
        return inner
    if not isinstance(one, cst.Index):
        return _UNKNOWN
    by = _of(one.value, module, owner, left)
    if by:  # by positions
        return inner - 1 + by
    single = isinstance(one.value, (cst.Name, cst.Integer)) and not _may_be_a_tensor(
        one.value, module
    )
    return inner - 1 if single else _UNKNOWN


def _may_be_a_tensor(node: cst.BaseExpression, module: ModuleFile) -> bool:
    """Whether this is a name that is given something, and no parameter or counter."""
    if not isinstance(node, cst.Name):
        return False
    structure = module.structure
    around = structure.function(node) or structure.tree
    if structure.given(node, around):
        return True
    loops: list[cst.For | cst.CompFor] = [*structure.inside(around, cst.For)]
    loops += structure.inside(around, cst.CompFor)
    return any(_gives_items(loop, node.value) for loop in loops)


def _gives_items(loop: cst.For | cst.CompFor, name: str) -> bool:
    """Whether a loop gives a name what it goes through, and no number of its rounds."""
    through = code_of(loop.iter.func) if isinstance(loop.iter, cst.Call) else ""
    if name not in assigned(loop.target) or through == "range":
        return False
    parts = loop.target.elements if isinstance(loop.target, UNPACKED) else ()
    return through != "enumerate" or not parts or name not in assigned(parts[0].value)


def _of_name(
    node: cst.Name | cst.Attribute, module: ModuleFile, owner: Instance | None, left: int
) -> int:
    """What all assignments to a name have; a parameter of ``__init__`` has what the call gives."""
    if isinstance(node, cst.Attribute) and owner is None:
        return _UNKNOWN
    structure = module.structure
    within = structure.class_of(node) if isinstance(node, cst.Attribute) else None
    around = within or structure.function(node) or structure.tree
    given = [value for _, value in structure.given(node, around)]
    if not given and isinstance(node, cst.Name) and owner is not None:
        shown = _passed(owner, node)
        if shown is not None:
            return _of(shown, owner.module, None, left)
    if not given and isinstance(node, cst.Name):
        given = list(_of_module(node, module))
    found = {_of(one, module, owner, left) if one is not None else _UNKNOWN for one in given}
    return found.pop() if len(found) == 1 else _UNKNOWN


def _of_module(node: cst.Name, module: ModuleFile) -> Iterator[cst.BaseExpression | None]:
    """What a file assigns to a name that a function reads, and neither sets nor is given."""
    structure = module.structure
    around = structure.function(node)
    params = around.params if around is not None else None
    every = (*params.posonly_params, *params.params, *params.kwonly_params) if params else ()
    stars = (params.star_arg, params.star_kwarg) if params else ()
    taken = {one.name.value for one in (*every, *stars) if isinstance(one, cst.Param)}
    if around is None or node.value in taken:
        return
    for by, value in structure.given(node, structure.tree):
        if structure.function(by) is None:
            yield value


def _passed(owner: Instance, name: cst.Name) -> cst.BaseExpression | None:
    """What the call that makes an object gives for a parameter of its ``__init__``."""
    made = owner.type
    inits = (
        [m for m in _methods(made) if m.name.value == "__init__"] if isinstance(made, Class) else []
    )
    if len(inits) != 1 or not isinstance(owner.site, cst.Call):
        return None
    names = [param.name.value for param in inits[0].params.params]
    if name.value not in names[1:]:  # not of the object itself
        return None
    found = argument(owner.site, name.value, names.index(name.value) - 1)
    return found.value if found is not None else None
