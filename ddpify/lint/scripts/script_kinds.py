"""What kind of script a file is, and what asks for it."""

import re

SINGLE, DISTRIBUTED, OTHER = "single", "distributed", "other"
# What a rule looks at, too: scripts of one process, where it says what a conversion does.
CONVERTED = "converted"
# Words of a question about the launch. They only ever silence a rule, never speak for a finding.
MAY_ASK = re.compile(
    r"(?i)distrib|(?<![a-z])dist(?![a-z])|world_?size|ddp|fsdp|is_initialized|is_available|gpus?\b|nproc|multi|local_?rank"
    r"|parallel|\brank\b|num_replicas|num_processes|n_proc"
)
