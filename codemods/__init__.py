"""LibCST codemods, one for each thing that changes on the way from one process to many."""
