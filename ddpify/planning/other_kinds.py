"""Scripts of another kind: distributed already, a framework's, or without a training."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from ddpify.planning import nothing_started
from ddpify.planning.refusals import AlreadyDistributed, Refusal, at
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.libraries.distributed import DDP, INIT_GROUP, SAMPLER, SPAWNS
from ddpify.understanding.libraries.frameworks import ENVIRONMENTS, training_framework
from ddpify.understanding.libraries.runtime_names import TRAINING, is_vendored
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Instance, Params

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
_RUNTIME = ("ddpify.runtime", "ddpify_runtime")
GPUS_BY_HAND = tuple(
    f"torch.nn.parallel.{name}" for name in ("replicate", "scatter", "parallel_apply")
)
_ENVIRONMENTS = tuple(f"{name}." for name in ENVIRONMENTS)


def refuse_before(facts: Facts, project: Project, choices: Choices) -> None:
    """Refuse scripts that are of another kind altogether."""
    _refuse_distributed(facts, project)
    _refuse_frameworks(facts, project)
    if not facts.backwards:
        raise no_training_loop(project)
    _refuse_several_devices_or_environments(facts)
    try:
        _refuse_what_is_not_trained(facts, project, choices)
    except Refusal as refusal:
        raise nothing_started.rather_than(refusal, facts, project) from None


def _refuse_what_is_not_trained(facts: Facts, project: Project, choices: Choices) -> None:
    first, _ = next(iter(facts.backwards.values()))
    if not facts.optimizers and not facts.gradients.stepped:
        raise at(
            first,
            "no torch.optim optimizer was found that steps on these gradients",
            "use an optimizer object, so that it is known which parameters are trained",
        )
    _refuse_steps_within_a_batch(facts)
    if not choices.trained:
        if facts.optimizers and not any(map(_steps_a_model, facts.optimizers)):
            raise without_a_model(facts, project)
        raise at(
            first,
            "the loss comes neither from the batches of a DataLoader nor from a tensor whose"
            " samples a model takes one by one, so there is nothing to split",
            "feed the model with batches of samples along the first dimension",
        )


def _refuse_several_devices_or_environments(facts: Facts) -> None:
    for _, site in facts.calls_to(*_ENVIRONMENTS):
        raise at(
            site,
            "it learns from an environment that it runs itself",
            "each process must run its own environments; split them by hand",
            of_the_script=True,
        )
    for _, site in facts.calls_to(*GPUS_BY_HAND):
        raise spread_by_hand(site)


def _refuse_steps_within_a_batch(facts: Facts) -> None:
    for site in facts.batches.part_steps.values():
        raise at(
            site,
            "each round of this loop is a step of its own, on a part of one of the loader's"
            " batches: on a single sample, or on a batch within it",
            "let the loader give what a step trains on: one batch from its collate_fn, with a"
            " batch_sampler for samples that go together; name parts that have a row for each"
            " sample, as in: first, second = batch",
            of_the_script=True,
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
                return lost_loss(Site(call, module), final=True)
    message = "it has no training loop: nothing here calls backward()"
    remedy = "convert the script that trains"
    unread = next(iter(project.unreadable), None)
    if unread is not None:
        message += (
            f"; a module that it imports cannot be read ({unread.location}: {unread.message})"
        )
        remedy = unread.remedy or remedy
    return Refusal(project.entry, None, message, remedy, final=True)


def lost_loss(site: Site, *, final: bool = False) -> Refusal:
    """A loss that cannot be followed back to a batch."""
    return at(
        site,
        "where this loss comes from cannot be followed",
        "compute it from the batch and the model's output in code that ddpify can read",
        final=final,
    )


def spread_by_hand(site: Site) -> Refusal:
    """The script drives several GPUs from one process, other than by a wrapper."""
    return at(
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
        raise at(
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
            raise at(
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
