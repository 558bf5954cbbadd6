"""What kind of script a file is."""

SINGLE, DISTRIBUTED, OTHER = "single", "distributed", "other"
# What a rule looks at, too: scripts of one process, where it says what a conversion does.
CONVERTED = "converted"
