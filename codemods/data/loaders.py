"""Give each rank its slice of every global batch; run unsplit loaders alike on all ranks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.bindings import bindings
from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.batching import collating, stateful_datasets
from ddpify.understanding.facts import OWN, BatchDimensions, Dimensions, Site
from ddpify.understanding.libraries import seeding_datasets
from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.syntax import argument, brief, code_of
from ddpify.understanding.values import UNKNOWN, Instance, deep_atoms


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap the calls that make loaders, or the names they are bound to."""
    for loader in plan.facts.iterated_loaders:
        unsplit = plan.replicated.get(loader.site)
        function = f"{plan.options.alias}.{'replicate' if unsplit else 'shard'}"
        changes = {} if unsplit else _changes(plan, loader)
        layout, how = (None, None) if unsplit else _put_together(plan, loader)
        seeds = not unsplit and seeding_datasets.leaves_seeds(plan.facts, loader)
        extra = "".join(changes) + _padding(layout) + _beside_others(plan, loader)
        extra += ", seeds=True" if seeds else ""
        for site in _wrap(plan, edits, loader, function, extra):
            _say(edits, site, unsplit)
            for text in changes.values():
                edits.note(site, text, attention=True)
            if not unsplit and plan.options.sampler == "distributed" and _samples_itself(loader):
                edits.note(site, _KEPT, attention=True)
            if layout is _UNREAD:
                edits.note(site, _ROWS_FIRST, attention=True)
            elif how is not None:
                edits.note(site, how)
            elif not unsplit and loader in plan.facts.loading.joint:
                edits.note(site, _joining(plan, loader), attention=True)
            if seeds:
                edits.note(site, _SEEDS)
            if loader.site in plan.choices.trained and not changes and _gives_one(loader):
                edits.note(site, _ALONE, attention=True)
    _cycles(plan, edits)
    _switch_batches(plan, edits)
    _cuts(plan, edits)
    _handed(plan, edits)


def _put_together(plan: Plan, loader: Instance) -> tuple[BatchDimensions | None, str | None]:
    """Where the rows lie in batches that every rank collates in full, and why it does so."""
    mixed = plan.facts.loading.mixed.get(loader)
    if stateful_datasets.goes_on(loader, plan.facts):
        return _known_layout(plan, loader, _OUT_OF_ORDER, _BY_INDEX), _IN_TURN
    if mixed is not None and (not _gives_one(loader) or _changes(plan, loader)):
        return _known_layout(plan, loader, _mixing(mixed), _TUPLES), _MIXED
    layout = plan.facts.loading.layouts.get(loader)
    if layout is not None and loader in plan.facts.loading.joint:
        return layout, _JOINT
    return None, None


def _beside_others(plan: Plan, loader: Instance) -> str:
    """The arguments for batches that are taken beside, or joined with, those of other loaders."""
    if loader.site in plan.replicated:
        return ", aside=True" if loader.site in plan.aside else ""
    joined = any(loader.site is other.site for other in plan.facts.batches.joined)
    return ", joined=True" if joined else ""


def _cuts(plan: Plan, edits: Edits) -> None:
    """The first rows of a whole batch, of which each rank takes its part."""
    for node, loader in plan.choices.cuts.items():
        assert isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice)
        upper = node.slice[0].slice.upper
        assert upper is not None
        extra = f", {code_of(upper)}, of={loader}"
        edits.put(node, f"{plan.options.alias}.first({code_of(node.value)}{extra})")
        edits.note(plan.site(node), f"{brief(node)}: this rank's part of the first rows of all")


def _switch_batches(plan: Plan, edits: Edits) -> None:
    """Where a step returns to the batch of one loader after that of another has come."""
    for statement, switch in plan.choices.switches.items():
        if statement in plan.facts.batches.switched:
            edits.insert_before(statement, f"{plan.options.alias}.use_batch_of({switch.code})\n")
            edits.note(plan.site(statement), f"uses the batch of {switch.code} from here on")


def _cycles(plan: Plan, edits: Edits) -> None:
    """What repeats the batches of a loader must remember how each is shared."""
    for node, site in plan.facts.batches.cycled.items():
        if site.module.editable and isinstance(node, cst.Call):
            edits.put(node.func, f"{plan.options.alias}.cycle")
            edits.note(site, "repeated batches are split as they were the first time")


def _handed(plan: Plan, edits: Edits) -> None:
    """Give whole batches of split loaders to code that cannot be read and knows no ranks."""
    split = {loader for loader in plan.facts.iterated_loaders if loader.site not in plan.replicated}
    for node, site in plan.facts.loading.escaping_loaders.items():
        held = plan.facts.values.get(node, UNKNOWN)
        loaders = {a for a in deep_atoms(held) if isinstance(a, Instance) and is_loader(a)}
        if not loaders & split:
            continue
        if site.module.editable and node is not site.node and loaders.issuperset(held.atoms):
            edits.wrap(node, f"{plan.options.alias}.replicate")
            edits.note(site, f"{brief(node)}: whole batches for code that cannot be read")
        else:
            edits.note(site, _UNSEEN, attention=True)


_UNSEEN = (
    "code that ddpify cannot read gets a loader that gives each rank its part of every batch: give"
    " it one of its own"
)
_ALONE = (
    "each of its batches is one sample, which one rank trains on while the others wait: the same"
    " training, and no faster; larger batches, or --batch per-rank, share the work"
)
_KEPT = (
    "it keeps the sampler that the script gives it: --sampler distributed takes the place of a"
    " plain or shuffled order only"
)
_JOINT = (
    "its collate function takes all samples together, as for the length of the longest: each rank"
    " puts whole batches together and takes its rows"
)
_IN_TURN = (
    "what its data set gives goes by the samples that were taken before: each rank takes all"
    " samples of a batch, and keeps its own"
)
_MIXED = (
    "its collate function lets the samples of a batch depend on each other: each rank puts whole"
    " batches together and keeps its own rows, so that the loading is not divided"
)
_SEEDS = (
    "its data set seeds the random generators for each sample: each rank takes the last sample of"
    " each batch as well, so that what is drawn next is what one process draws"
)
_UNREAD: BatchDimensions = {}
_ROWS_FIRST = (
    "code that ddpify cannot read puts its batches together: each rank puts whole batches together"
    " and keeps its rows, which must come first in every tensor (a run ends where they do not)"
)
_OUT_OF_ORDER = (
    "what its data set gives goes by the samples that were taken before, so that every rank must"
    " take all samples, and the sample dimension of its batches is unknown"
)
_BY_INDEX = "let __getitem__ look the sample up by its index, and change a copy of it"
_TUPLES = "return a tuple or a dictionary of tensors with a row for each sample, or of statistics"


def _padding(layout: BatchDimensions | None) -> str:
    """The arguments for batches that every rank collates in full."""
    if layout is None:
        return ""
    if layout is _UNREAD:
        return ', collate="unread"'
    first = isinstance(layout, tuple) and all(dim == 0 for dim in layout)
    dims = layout[0] if isinstance(layout, tuple) and len(layout) == 1 else layout
    return ', collate="global"' + ("" if first else f", dim={_shown(dims)}")


def _shown(dim: Dimensions) -> str:
    if isinstance(dim, dict):
        return "{" + ", ".join(f'"{name}": {_shown(one)}' for name, one in dim.items()) + "}"
    if isinstance(dim, tuple):
        return "(" + ", ".join(map(_shown, dim)) + ("," if len(dim) == 1 else "") + ")"
    return f'"{dim}"' if isinstance(dim, str) else str(dim)


def _mixing(mixed: Site) -> str:
    """Where a collate function lets samples depend on each other."""
    assert isinstance(mixed.node, cst.CSTNode)
    return (
        f"its collate function lets the samples of a batch depend on each other:"
        f" {brief(mixed.node)} (line {mixed.line}); every rank must put whole batches together,"
        " and the sample dimension of those is unknown"
    )


def _known_layout(plan: Plan, loader: Instance, reason: str, remedy: str) -> BatchDimensions | None:
    """Along which dimension the rows lie in batches that every rank collates in full."""
    if collating.puts_batch_first(loader):
        return (0,)
    layout = plan.facts.loading.layouts.get(loader)
    if layout is not None and OWN in (layout.values() if isinstance(layout, dict) else layout):
        layout = None  # a rank's own samples do not make these parts
    if layout is None and loader in plan.facts.loading.unread:
        return _UNREAD
    if layout is None:
        plan.refuse(
            Refusal(
                loader.module,
                loader.site,
                reason,
                remedy,
            )
        )
    return layout


def _joining(plan: Plan, loader: Instance) -> str:
    """Where a collate function gets something of all samples; what it gives is not understood."""
    site = plan.facts.loading.joint[loader]
    assert isinstance(site.node, cst.CSTNode)
    return (
        f"its collate function takes all samples of a batch together: {brief(site.node)} (line"
        f" {site.line}); on each rank these are the rank's own, so that what it makes of them, as"
        " the amount of padding, must not affect the model"
    )


def _gives_one(loader: Instance) -> bool:
    """Whether a loader's batches surely are of one sample each."""
    call, given = loader.site, loader.arguments
    if not isinstance(call, cst.Call) or "batch_sampler" in given or not _names_all(loader):
        return False
    if given.get("batch_size", UNKNOWN).constant() == 1:
        return True
    plain = loader.kind == "torch.utils.data.DataLoader"
    starred = any(one.star for one in call.args)
    return plain and not starred and argument(call, "batch_size", 1) is None


def _names_all(loader: Instance) -> bool:
    """Whether the arguments that a loader gets are known by their names."""
    for mapping in loader.arguments.get("**", UNKNOWN).atoms:
        keys = mapping.attributes if isinstance(mapping, Instance) else ("*",)
        if not all(key.startswith("['") and "batch_sampler" not in key for key in keys):
            return False
    return True


def _samples_itself(loader: Instance) -> bool:
    """Whether the script gives the loader a sampler, whose order is split as it is."""
    call = loader.site
    if not isinstance(call, cst.Call):
        return False
    given = (argument(call, name, at) for name, at in (("sampler", 3), ("batch_sampler", 4)))
    return any(one is not None and code_of(one.value) != "None" for one in given)


def _changes(plan: Plan, loader: Instance) -> dict[str, str]:
    """Arguments that let the training differ from the original's, and what each means."""
    found = {}
    if plan.options.sampler == "distributed" and not _samples_itself(loader):
        text = "samples come in DistributedSampler's order, not in the original's"
        found[', sampler="distributed"'] = text
    if plan.options.batch == "per-rank" and loader.site in plan.choices.trained:
        scaled = plan.options.scale_lr
        rates = f"grow with it by the {scaled} rule" if scaled else "stay (--scale-lr changes them)"
        found[', batch="per-rank"'] = (
            "each of N ranks takes batches of the script's size: the global batch is N times the"
            f" original's, with 1/N of the steps; learning rates {rates}"
        )
    return found


def _say(edits: Edits, site: Site, unsplit: str | None) -> None:
    if unsplit:
        edits.note(site, f"every rank runs the whole loader: {unsplit}")
    else:
        rule = "missing-distributed-sampler"
        edits.note(site, "loader split among the ranks", rule=rule)


def _wrap(plan: Plan, edits: Edits, loader: Instance, function: str, extra: str) -> Iterator[Site]:
    if loader.module.editable and isinstance(loader.site, cst.Call) and not _shared(plan, loader):
        site = Site(loader.site, loader.module)
        _wrap_call(edits, site, function, extra)
        yield site
        return
    found = False
    for site, target in bindings(plan, loader):
        found = True
        edits.rebind(site.module.part(target), code_of(target), function, extra)
        yield site
    if not found:
        plan.refuse(
            Refusal(
                loader.module,
                loader.site,
                f"the loader is made in {loader.module.path.name}, and"
                f" {plan.project.entry.path.name} gives it no name",
                "bind the loader to a name in the script, or convert the whole project",
            )
        )


def _shared(plan: Plan, loader: Instance) -> bool:
    """Whether the call that makes a loader makes other things too, as one by a setting may."""
    made = plan.facts.values.get(loader.site, UNKNOWN)
    return any(not (isinstance(a, Instance) and a.role == "loader") for a in made.atoms)


def _wrap_call(edits: Edits, site: Site, function: str, extra: str) -> None:
    """Wrap a call of one line in place; after one of several lines, rebind its name."""
    call, parent = site.node, site.module.parents[site.node]
    if isinstance(parent, cst.Assign) and "\n" in code_of(call) and len(parent.targets) == 1:
        target = parent.targets[0].target
        if isinstance(target, (cst.Name, cst.Attribute)):
            edits.rebind(site.module.part(call), code_of(target), function, extra)
            return
    if not edits.wrapped.get(call):
        edits.wrap(call, function, extra)
