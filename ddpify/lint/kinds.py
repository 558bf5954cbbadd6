"""What kind of script a file is."""

SINGLE, DISTRIBUTED, OTHER = "single", "distributed", "other"
