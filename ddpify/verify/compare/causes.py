"""What may be behind a difference: the causes that verify can name, with their remedies."""

from __future__ import annotations

from ddpify.verify.verdict import Cause

ORDER = Cause(
    "each pass has the original's samples, once, in an order of its own, as a DistributedSampler "
    "gives them",
    "nothing to repair if the order need not be the original's; dd.shard(loader) keeps it",
    ("DDP113",),
    "order",
)
BATCH_SIZE = Cause(
    "each rank takes batches of the original's size, so that the global batch is larger and the "
    "optimizer makes fewer steps",
    "divide the batch size by the world size, or adjust the learning rate and say so",
    ("DDP110",),
    "batch-size",
)
SMALLER_BATCH = Cause(
    "the global batch is smaller than the original's, so that the optimizer makes more steps",
    "divide the batch size by the world size once",
    ("DDP110",),
    "batch-size",
)
PADDING = Cause(
    "the sampler repeats samples so that all ranks get equally many",
    "drop_last=True, or dd.shard(loader), which needs no padding",
    ("DDP112",),
    "padding",
)
BATCH_NORM = Cause(
    "BatchNorm layers use the statistics of each rank's own batch; nothing else differs",
    "convert them with SyncBatchNorm, or dd.wrap(model), before wrapping",
    ("DDP312",),
    "batchnorm",
)
SUSPECTED_BATCH_NORM = Cause(
    "BatchNorm layers use the statistics of each rank's own batch, and more differs besides",
    BATCH_NORM.remedy,
    ("DDP312", "DDP412", "DDP408"),
)
ALLOWABLE = {cause.name: cause for cause in (ORDER, BATCH_SIZE, PADDING, BATCH_NORM)}
"""Causes that a person may accept, by name."""

NOT_SPLIT = Cause(
    "every rank trains on all samples: the loader is not split",
    "give each rank its own slice of each batch (a sampler, or dd.shard(loader))",
    ("DDP101",),
)
NOT_SPLIT_STREAM = Cause(
    "every rank trains on all samples: each reads the whole stream",
    "let each rank keep every n-th sample of the stream, or of each batch (dd.shard(loader))",
    ("DDP105",),
)
SAME_BATCHES = Cause(
    "every rank makes the same batches by hand",
    "draw the global batch on every rank alike and take this rank's slice of it",
    ("DDP106",),
)
OWN_BATCHES = Cause(
    "the rows that enter the model are not the original's: batches, or noise that is put on them, "
    "are drawn or sliced otherwise",
    "draw for the global batch on every rank alike, from the same seed, and take this rank's slice",
    ("DDP106", "DDP104", "DDP602", "DDP601"),
)
SAME_ORDER = Cause(
    "the sampler's order is the same in every pass: set_epoch is not called",
    "call sampler.set_epoch(epoch) at the head of the epoch loop",
    ("DDP102",),
)
OVERLAP = Cause(
    "each rank draws an order of its own, so that samples come twice and others never",
    "seed the sampler alike on all ranks",
    ("DDP604", "DDP104", "DDP602"),
)
DOUBLED = Cause(
    "samples reach more than one rank",
    "check the sampler's rank and number of replicas, and its padding",
    ("DDP104", "DDP101"),
)
LOST = Cause(
    "samples reach no rank",
    "check the sampler's rank and number of replicas, and how short batches are sliced",
    ("DDP104", "DDP114"),
)
DROPPED = Cause(
    "the last samples of a pass are dropped (drop_last), which the original trains on",
    "drop_last=False where the original has it, or dd.shard(loader), which needs no padding",
    ("DDP114",),
)
LEAK = Cause(
    "each rank splits the data set in its own way: what one evaluates, another trains on",
    "split with generator=torch.Generator().manual_seed(0), the same on every rank",
    ("DDP107", "DDP602"),
)
CONTENT = Cause(
    "the data set is built from random numbers, or in an order, that differ between the ranks",
    "build it from a fixed seed and from sorted listings",
    ("DDP108", "DDP116"),
)
UNWRAPPED = Cause(
    "no gradient is averaged over the ranks: the model is not wrapped",
    "wrap the model in DistributedDataParallel, or dd.wrap(model), and call the wrapper itself",
    ("DDP303", "DDP304"),
)
BYPASS = Cause(
    "no gradient is averaged over the ranks: the forward goes past the wrapper, through .module",
    "call the wrapper itself; move what computes the loss into the model's forward",
    ("DDP303", "DDP304"),
)
STALE = Cause(
    "no gradient is averaged over the ranks: the forward is that of a reference to the model from "
    "before it was wrapped",
    "wrap the model before it is handed on",
    ("DDP304", "DDP303"),
)
MOVED = Cause(
    "no gradient is averaged over the ranks, although the wrapper is called: the model was moved "
    "or cast after it was wrapped",
    "move and cast the model first, then wrap it",
    ("DDP302",),
)
SEPARATE_BACKWARDS = Cause(
    "one backward goes through a forward that is not the wrapper's latest: only the first one "
    "after a forward is averaged",
    "add the losses and call backward once, or alternate forward and backward",
    ("DDP310",),
)
CHANGED_GRADIENT = Cause(
    "most gradients are averaged over the ranks; some ranks change others afterwards",
    "change gradients on all ranks alike",
    ("DDP407",),
)
CHANGED_BY_SOME = Cause(
    "between backward and step, some ranks change gradients that others leave as they are",
    CHANGED_GRADIENT.remedy,
    ("DDP407",),
)
CHANGED_OTHERWISE = Cause(
    "between backward and step, gradients are changed otherwise than in the original: clamped, "
    "scaled, or given noise",
    "change gradients as the original does, after they are averaged over the ranks",
    ("DDP422", "DDP407"),
)
CONDITIONAL = Cause(
    "an update runs on some ranks only",
    "take it out of the condition on the rank: every rank makes the same updates",
    ("DDP407",),
)
LOCAL_RATE = Cause(
    "the learning rate follows a number that each rank computes for itself",
    "reduce the number over all ranks before the scheduler sees it",
    ("DDP406",),
)
OTHER_RATE = Cause(
    "the learning rate is another than the original's on every rank: the schedule's length comes "
    "from a loader that is split, or the rate is scaled with the world size",
    "compute the schedule from the global number of batches; keep the original's rate while the "
    "global batch stays the same",
    ("DDP418", "DDP110"),
)
SCALED_RATE = Cause(
    "the learning rate is scaled on every rank from the first step on",
    "keep the original's rate while the global batch stays the same",
    ("DDP110", "DDP418"),
)
SUM_LOSS = Cause(
    "the loss is a sum over the batch, and the wrapper averages the ranks' gradients",
    "multiply a summed loss by the world size",
    ("DDP408", "DDP409"),
)
DIVIDED_LOSS = Cause(
    "the loss is divided by the world size, and the wrapper divides once more",
    "call backward on the mean over the rank's own samples",
    ("DDP409", "DDP410", "DDP408"),
)
SUMMED_GRADIENT = Cause(
    "the sum over the ranks is used where their mean is due",
    "divide by the world size once",
    ("DDP409", "DDP408"),
)
WEIGHTS = Cause(
    "the ranks' gradients are averaged with weights that do not fit the loss: a mean over uneven "
    "parts or over valid tokens, or a loss that couples the samples of a batch",
    "weight each rank's loss by its share of the global batch",
    ("DDP408", "DDP412", "DDP413"),
)
TARGETS = Cause(
    "",
    "take the targets of the very samples that are predicted: the same rows of the same batch",
    ("DDP106", "DDP104"),
)
COMPOSED = Cause(
    "the losses take the original's predictions and targets, and are weighted, reduced or added up "
    "otherwise: a mean over uneven parts, over valid tokens or by class weights, a loss that "
    "couples the samples of a batch, or another reduction, factor or term",
    WEIGHTS.remedy,
    WEIGHTS.rules,
)
FACTOR = Cause(
    "a factor of the loss differs (accumulation, batch size)",
    "make the loss that backward is called on the mean over the global batch",
    ("DDP416", "DDP408"),
)
ZEROED_EARLY = Cause(
    "zero_grad is called between backward and the step: the gradients are cleared before their use",
    "call zero_grad before the forward, or after the step, as the original does",
    ("DDP407", "DDP416"),
)
NO_SYNC = Cause(
    "the last forward before the step is under no_sync: no gradient is averaged over the ranks",
    "leave no_sync before the forward of the last micro-batch of the window",
    ("DDP415",),
)
NOT_ZEROED = Cause(
    "zero_grad is not called: gradients of earlier steps are added up",
    "call zero_grad where the original does",
    ("DDP416",),
)
CLIPPED_EARLY = Cause(
    "each rank clips its own gradients, before they are averaged over the ranks",
    "average the gradients first, then clip them",
    ("DDP422",),
)
CLIPPED = Cause(
    "gradients are clipped otherwise than in the original: not as often, not on all ranks, to "
    "another limit, or of other parameters",
    "clip where the original does, to the same limit",
    ("DDP422",),
)
SCHEDULED = Cause(
    "the scheduler makes another number of steps than the original's between two updates",
    "call scheduler.step() where the original does",
    ("DDP416", "DDP418"),
)
EXTRA_STEPS = Cause(
    "the optimizer steps without a backward since its last step",
    "step once for each backward, or window of backwards, as the original does",
    ("DDP407", "DDP416"),
)
OPTIMIZER = Cause(
    "the optimizer's state or its options differ, or something else changes the parameters",
    "compare the optimizer's arguments, clipping and anything that writes to parameters",
    ("DDP407", "DDP422"),
)
STUCK = Cause(
    "the optimizer does not hold the parameters that are trained: it was made before they were "
    "sharded",
    "shard or wrap the model first, then make the optimizer from its parameters",
    ("DDPF01",),
)
START = Cause(
    "the model starts from other weights: the random numbers drawn before it are not the "
    "original's, or a checkpoint is loaded after wrapping",
    "seed every rank alike before the model is built",
    ("DDP308",),
)
BETWEEN = Cause(
    "between two steps, something other than the optimizer changes parameters, not on all ranks "
    "alike",
    "do it on every rank with the same numbers, or before wrapping",
    ("DDP407", "DDP308"),
)
BUFFER = Cause(
    "a buffer is computed from one rank's part of the batch",
    "reduce the statistic over the ranks before it is stored",
    ("DDP314", "DDP312"),
)
COLLECTIVE = Cause(
    "a collective is under a condition that not every rank meets",
    "let every rank take part in it",
    ("DDP401",),
)
CONTROL_FLOW = Cause(
    "a rank leaves or skips part of the loop by a decision of its own",
    "let all ranks decide together: reduce the value or flag that it depends on",
    ("DDP402",),
)
RANK_FORWARD = Cause(
    "the wrapped model is called on some ranks only",
    "call model.module there, or evaluate on all ranks",
    ("DDP403",),
)
OTHER_COLLECTIVES = Cause(
    "the ranks' collectives do not match",
    "let every rank take part in the same collectives in the same order",
    ("DDP401", "DDP402", "DDP403"),
)
STEPS = Cause(
    "loops run another number of times: batches per epoch, accumulation or an early end differ",
    "keep the number of batches the original has; decide about stopping on all ranks together",
    ("DDP402", "DDP416"),
)
IDLE = Cause(
    "the ranks do less than the original's work",
    "train on all samples of each batch",
    ("DDP104",),
)
UNUSED = Cause(
    "some parameters get no gradient in a forward, and the wrapper waits for one of each",
    "DistributedDataParallel(model, find_unused_parameters=True), or do not train what is not used",
    ("DDP316",),
)
EARLY_MICRO_BATCHES = Cause(
    "the accumulation window ends at other micro-batches than the original's",
    "step after the same micro-batches as the original, the last ones of an epoch included",
    ("DDP416",),
)
RANK_LOCAL_STEPS = Cause(
    "each rank decides by a number of its own whether to make a step",
    "reduce the number over all ranks before it is decided upon",
    ("DDP402", "DDP407"),
)
NOT_SHUFFLED = Cause(
    "the samples come in the order of the data set: the loader does not shuffle them",
    "shuffle as the original does: shuffle=True, of the sampler where there is one",
    ("DDP113",),
)
EQUAL_NOISE = Cause(
    "ranks draw random numbers for their own samples from generators in the same state: "
    "their noise is the same",
    "give the generator a seed that differs by rank, or draw for the global batch and slice",
    ("DDP601",),
)
OWN_NOISE = Cause(
    "each rank draws from a generator of its own what one process draws once for all samples",
    "draw it from a generator that has the same seed on all ranks",
    ("DDP602",),
)
CHANGED_ROWS = Cause(
    "rows are changed after they were loaded, otherwise than in the original: noise, mixing or "
    "augmentation is drawn for each rank's part of the batch",
    "draw for the global batch on every rank alike, and take this rank's slice of it",
    ("DDP412", "DDP602", "DDP601"),
)
EVALUATION = "the model is in evaluation mode (model.eval()) in this step, and the original's not"
TRAINING = "the model is in training mode in this step, and the original's is not"
FROZEN = Cause(
    "parameters are frozen that the original trains",
    "freeze what the original freezes",
    ("DDP306",),
)
MODE = Cause(EVALUATION, "call model.train() and model.eval() where the original does")
SETTING = Cause("", "build the model with the original's settings")
OUTSIDE = Cause(
    "a model outside of the optimizer, such as an average of the weights, is updated or made "
    "otherwise than in the original",
    "make it after the ranks have the same weights, and update it on every rank alike",
    ("DDP407",),
)
KEPT = Cause(
    "",
    "reduce over the ranks what the step keeps for later ones",
    ("DDP314",),
)
EARLIER_SAVE = Cause(
    "",
    "save where the original does",
    ("DDP419",),
)
OTHER_RANK_PRINTS = Cause(
    "the line is printed by another rank than rank 0",
    "print on rank 0 alone, or its number will be another rank's",
    ("DDP508",),
)
DEVICE = Cause(
    "every rank uses the same GPU",
    "use torch.device('cuda', local_rank), or dd.device()",
    ("DDP201",),
)
MAP_LOCATION = Cause(
    "every rank loads onto the GPU that saved",
    "torch.load(path, map_location=device), or 'cpu'",
    ("DDP205",),
)
PRINTED_TWICE = Cause("every rank prints", "print on rank 0 alone", ("DDP508",))
PRINTED_NUMBER = Cause(
    "a number that is printed is one rank's, not that of all samples",
    "reduce it over the ranks, weighted by their samples, before it is printed or decided upon",
    ("DDP405", "DDP111", "DDP413"),
)
DENOMINATOR = Cause(
    "a sum over one rank's samples is divided by the size of the whole data set",
    "reduce the sum over the ranks before the division",
    ("DDP111", "DDP405"),
)
WRITTEN_TWICE = Cause("every rank writes the file", "write on rank 0 alone", ("DDP501",))
WRAPPED_KEYS = Cause(
    "the checkpoint holds the wrapper's keys",
    "save the state_dict of the wrapped module (model.module)",
    ("DDP503",),
)
