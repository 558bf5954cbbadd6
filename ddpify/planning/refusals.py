"""What ddpify does not convert, and what it says then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ddpify.errors import DdpifyError
from ddpify.understanding import uses
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Demand, Facts, Site
from ddpify.understanding.libraries.distributed import DDP, INIT_GROUP, SAMPLER, SPAWNS
from ddpify.understanding.libraries.frameworks import ENVIRONMENTS, training_framework
from ddpify.understanding.libraries.runtime_names import TRAINING, is_vendored
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Data, Instance, Params

DISTRIBUTED = (
    INIT_GROUP,
    DDP,
    SAMPLER,
    "torch.utils.data.DistributedSampler",
    "torch.distributed.fsdp.",
    "torch.distributed._composable",
    "apex.parallel.DistributedDataParallel",
    "apex.parallel.Reducer",
    "apex.parallel.multiproc",
    "fairscale.",
    SPAWNS[0],
    "torch.distributed.rpc.",
    "torch.distributed.launcher",
)
_WORDS = {
    Placement.REPLICATE: "a value",
    Placement.SHARD: "samples of the batch",
    Placement.ROWS: "samples picked from the batch by their position",
    Placement.MEAN: "a mean over the batch",
    Placement.SUM: "a sum over the batch",
    Placement.COUNT: "the size of the batch",
    Placement.PER_COUNT: "something divided by the size of the batch",
    Placement.WEIGHTED: "a mean over some of the batch",
    Placement.COUPLED: "a value that mixes the samples of the batch with each other",
}
_REMEDIES = {
    uses.ANOTHER_CALL: "write this in lines of their own for the different things that it"
    " gets, such as a mean in one branch and per-sample values in the other",
    uses.A_DRAW: "draw for the whole batch at once, as torch.rand(len(x)) does",
    uses.A_KEPT_TENSOR: "write it outside of the forward, by the labels or positions of the"
    " samples, or from a mean or a sum over the batch",
    uses.A_CUT: "cut it by this rank's number of samples, as torch.split(x, len(batch)) does",
    uses.A_VIEW: "bring the samples to the front first, as x.transpose(0, 1).reshape(len(batch),"
    " -1) does; as it stands, the view gives each sample parts of others",
}
_LOST = "where this loss comes from cannot be followed"
_FOLLOWED = "compute it from the batch and the model's output in code that ddpify can read"
_ALIKE = (
    "as far as ddpify can see, this loss is not computed from a rank's rows of a batch: every rank"
    " would do all of the work"
)
_SIZED = (
    "compute it from a batch, in code that ddpify can read; noise takes as many rows as a batch by"
    " torch.randn(len(x), 8)"
)
_RUNTIME = ("ddpify.runtime", "ddpify_runtime")
_GPUS_BY_HAND = tuple(
    f"torch.nn.parallel.{name}" for name in ("replicate", "scatter", "parallel_apply")
)
_ENVIRONMENTS = tuple(f"{name}." for name in ENVIRONMENTS)


class Refusal(DdpifyError):
    """The script is readable, but is not converted; exit code 1.

    ``final``: nothing in the script could be converted, whatever the user asks for.
    """

    def __init__(
        self,
        module: ModuleFile,
        node: cst.CSTNode | None,
        message: str,
        remedy: str,
        *,
        final: bool = False,
    ) -> None:
        line = module.line(node) if node is not None else None
        super().__init__(message, path=str(module.path), line=line, remedy=remedy, exit_code=1)
        self.module = module
        self.node = node
        self.final = final


class AlreadyDistributed(Refusal):
    """The script makes a process group or wraps its model itself: there is nothing to convert."""


def _at(site: Site, message: str, remedy: str, *, final: bool = False) -> Refusal:
    return Refusal(site.module, site.node, message, remedy, final=final)


def refuse_before(facts: Facts, project: Project, choices: Choices) -> None:
    """Refuse scripts that are of another kind altogether."""
    _refuse_distributed(facts, project)
    _refuse_frameworks(facts, project)
    if not facts.backwards:
        raise no_training_loop(project)
    for _, site in facts.calls_to(*_ENVIRONMENTS):
        raise _at(
            site,
            "it learns from an environment that it runs itself",
            "each process must run its own environments; split them by hand",
        )
    for _, site in facts.calls_to(*_GPUS_BY_HAND):
        raise spread_by_hand(site)
    if not facts.optimizers and not facts.gradients.stepped:
        site, _ = next(iter(facts.backwards.values()))
        raise _at(
            site,
            "no torch.optim optimizer was found that steps on these gradients",
            "use an optimizer object, so that it is known which parameters are trained",
        )
    for site in facts.batches.part_steps.values():
        raise _at(
            site,
            "each round of this loop is a step of its own, on a part of one of the loader's"
            " batches: on a single sample, or on a batch within it",
            "let the loader give what a step trains on: one batch from its collate_fn, with a"
            " batch_sampler for samples that go together; name parts that have a row for each"
            " sample, as in: first, second = batch",
        )
    if not choices.trained:
        if facts.optimizers and not any(map(_steps_a_model, facts.optimizers)):
            raise without_a_model(facts, project)
        site, _ = next(iter(facts.backwards.values()))
        raise _at(
            site,
            "the loss comes neither from the batches of a DataLoader nor from a tensor whose"
            " samples a model takes one by one, so there is nothing to split",
            "feed the model with batches of samples along the first dimension",
        )


def _steps_a_model(optimizer: Instance) -> bool:
    return any(isinstance(atom, Params) for atom in optimizer.arguments["params"].atoms)


def without_a_model(facts: Facts, project: Project) -> Refusal:
    """What is trained is no module, so that nothing can be wrapped."""
    made = facts.optimizers[0] if facts.optimizers else None
    return Refusal(
        made.module if made is not None else project.entry,
        made.site if made is not None else None,
        "the optimizer's parameters do not come from a model that ddpify can see",
        "make them nn.Parameters of an nn.Module, and pass it model.parameters()",
    )


def no_training_loop(project: Project) -> Refusal:
    """Nothing trains, as far as the files can be read and their values followed."""
    for module in project.files:
        for call in module.structure.all(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
                return Refusal(module, call, _LOST, _FOLLOWED, final=True)
    message = "it has no training loop: nothing here calls backward()"
    remedy = "convert the script that trains"
    unread = next(iter(project.unreadable), None)
    if unread is not None:
        message += (
            f"; a module that it imports cannot be read ({unread.location}: {unread.message})"
        )
        remedy = unread.remedy or remedy
    return Refusal(project.entry, None, message, remedy, final=True)


def spread_by_hand(site: Site) -> Refusal:
    """The script drives several GPUs from one process, other than by a wrapper."""
    return _at(
        site,
        "this spreads a batch over the GPUs of one process",
        "call the model itself: each rank has its part of the batch",
    )


def refuse_runtime_itself(entry: ModuleFile) -> None:
    """Refuse what ``convert --vendor`` has written beside a script."""
    if is_vendored(entry.source.text):
        raise Refusal(
            entry,
            None,
            "it is ddpify's runtime helper, written by `ddpify convert --vendor`",
            "convert the script that it stands beside",
            final=True,
        )


def refuse_converted(project: Project, files: Iterable[ModuleFile]) -> None:
    """Refuse files of a project that import ddpify's runtime.

    Raises:
        Refusal: One does.
    """
    imports = (pair for file in files if file.editable for pair in _imports(file))
    converted = next((node for name, node in imports if name.startswith(_RUNTIME)), None)
    if converted is not None:
        raise Refusal(
            project.entry,
            converted,
            "it is already converted: it imports ddpify's runtime helper",
            "convert the original script",
            final=True,
        )


def already_distributed(name: str, site: Site) -> AlreadyDistributed:
    """The script calls something that distributes a training."""
    return AlreadyDistributed(
        site.module,
        site.node,
        f"it is already distributed: it calls {name.rsplit('.', 1)[-1]}()",
        "run `ddpify lint` on it instead",
        final=True,
    )


def _refuse_distributed(facts: Facts, project: Project) -> None:
    refuse_converted(project, project.files)
    for name, site in facts.calls_to(*TRAINING):
        raise _at(
            site,
            f"a part of it is already converted: it calls {name.rsplit('.', 1)[-1]}()",
            "convert the original script",
            final=True,
        )
    for name, site in facts.calls_to(*DISTRIBUTED):
        raise already_distributed(name, site)


def refuse_imported_frameworks(files: Iterable[ModuleFile]) -> None:
    """Refuse files that import a framework which runs the training itself.

    Raises:
        Refusal: One does.
    """
    _refuse_named((name, Site(node, file)) for file in files for name, node in _imports(file))


def _refuse_frameworks(facts: Facts, project: Project) -> None:
    refuse_imported_frameworks(project.files)
    _refuse_named(facts.calls_to(""))


def _refuse_named(named: Iterable[tuple[str, Site]]) -> None:
    for name, site in named:
        framework = training_framework(name)
        if framework is not None:
            raise _at(
                site,
                f"{framework} already trains on many GPUs",
                f"use its own settings for the number of devices ({framework})",
                final=True,
            )


def _imports(file: ModuleFile) -> list[tuple[str, cst.CSTNode]]:
    found: list[tuple[str, cst.CSTNode]] = []
    for node in file.structure.all(cst.Import, cst.ImportFrom):
        if isinstance(node, cst.Import):
            found += [(dotted(alias.name) or "", node) for alias in node.names]
        elif node.module is not None and not node.relative:
            base = dotted(node.module) or ""
            if isinstance(node.names, cst.ImportStar):
                found.append((base, node))
            else:
                found += [(f"{base}.{dotted(alias.name)}", node) for alias in node.names]
    return found


def lost_losses(facts: Facts) -> Iterator[Refusal]:
    """The losses that cannot be followed back to a batch: their reduction would be a guess."""
    unused = set(unused_losses(facts))
    for site, loss in facts.backwards.values():
        if site not in unused and not any(isinstance(atom, Data) for atom in loss.atoms):
            alike = bool(loss.atoms) and facts.forwards.row_calls
            yield _at(site, _ALIKE, _SIZED) if alike else _at(site, _LOST, _FOLLOWED)


def unused_losses(facts: Facts) -> Iterator[Site]:
    """The losses of functions that nothing calls, where others are trained on."""
    for node, (site, loss) in facts.backwards.items() if facts.gradients.reached_backwards else ():
        known = any(isinstance(atom, Data) for atom in loss.atoms)
        if node not in facts.gradients.reached_backwards and not known:
            yield site


def taken_gradients(facts: Facts) -> Iterator[Refusal]:
    """Gradients of a model's parameters that the script takes itself."""
    for site in facts.gradients.taken_gradients.values():
        yield _at(
            site,
            "autograd.grad() takes gradients of a model's parameters, which are not averaged over"
            " the ranks as those of backward() are",
            "call backward() and use the parameters' .grad",
        )


def hooked_gradients(facts: Facts) -> Iterator[Refusal]:
    """Hooks on parameters that get the gradients before these are averaged."""
    for site in facts.gradients.accumulation_hooks.values():
        yield _at(
            site,
            "this hook gets a parameter before its gradient is averaged over the ranks",
            "do this after backward()",
        )


def taken_together(facts: Facts) -> Iterator[Refusal]:
    """Functions of which calls are taken together, and perhaps need not all be reduced."""
    for function, site in facts.taken_together.items():
        name = getattr(function, "name", None)
        yield _at(
            site,
            f"{name.value + '()' if name is not None else 'a lambda'} is called in more ways than"
            " ddpify tells apart, and returns parts of a batch in some, something else in others",
            "call it in fewer ways: this is a limit of ddpify's, not an error of the script",
            final=True,
        )


def loose_gradients(facts: Facts) -> Iterator[Refusal]:
    """Gradients of replicated tensors, and no model."""
    for site in facts.gradients.loose_gradients.values():
        yield _at(
            site,
            "this is the gradient of a tensor that no model holds: it would differ between the"
            " ranks",
            "make it an nn.Parameter of the model, which uses it in its forward",
        )


def layers_in_forwards(facts: Facts) -> Iterator[Refusal]:
    """Layers whose random weights are drawn in a forward, by each rank."""
    for site in facts.forwards.made_in_forward.values():
        yield _at(
            site,
            "a layer is made in a forward: each rank draws weights of its own for it",
            "make it where the model is made, so that all ranks start from the same weights",
        )


def layers_along_rows(facts: Facts) -> Iterator[Refusal]:
    """Layers that take the samples of a batch for the steps of one sequence."""
    for site in facts.rows.along_rows.values():
        yield _at(
            site,
            "this layer treats the samples of the batch as the steps of one sequence: its output"
            " for a sample depends on those of the other ranks",
            "give it batch_first=True, or put the steps first, as x.transpose(0, 1) does",
        )


def work_of_all(facts: Facts) -> Iterator[Refusal]:
    """Models that only ever train on the rows of all ranks: each rank would do all the work.

    What is trained on collected rows in the end, beside a model whose training is shared, may; and
    a model that treats rows alone is called on a rank's part of them.
    """
    split = {model.site for model in facts.forwards.trained_by_rows}
    for call in facts.forwards.replicated_calls.values():
        beside = bool(split) and not call.in_loop
        beside |= call.site.module.editable and all(map(facts.forwards.row_calls.get, call.models))
        if call.gathered and not beside and not any(m.site in split for m in call.models):
            yield _at(
                call.site,
                "the model would train on the whole batch on every rank: what is computed from its"
                " samples here cannot be computed from the ranks' parts",
                "compute the loss from per-sample values, a mean or a sum over the batch",
            )


def unequal_batches(facts: Facts) -> Iterator[Refusal]:
    """What is made of the batches of two loaders, which may be of different sizes."""
    for use in facts.batches.two_sizes.values():
        yield _at(
            use.site,
            f"this is computed from the batches of two loaders ({places(use.loaders)}), which may"
            " have different numbers of samples",
            "give both loaders the same batch_size, and drop_last=True; or compute from each in"
            " lines of their own",
        )


def places(loaders: Iterable[Instance]) -> str:
    """Where loaders are made, by file and line."""
    lines = {f"{one.module.path.name}:{one.module.line(one.site)}" for one in loaders}
    return " and ".join(sorted(lines))


def refuse_reading(demand: Demand) -> Refusal:
    """A training step reads something that no reduction makes global."""
    return Refusal(
        demand.site.module,
        demand.site.node,
        f"{demand.reader} reads {_WORDS[demand.data.placement]},"
        " which cannot be computed from the ranks' parts",
        _REMEDIES.get(
            demand.reader, "compute it from per-sample values, a mean or a sum over the batch"
        ),
    )
