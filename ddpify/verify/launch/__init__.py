"""Starting runs: copies of the folder, the worker, its jobs."""
