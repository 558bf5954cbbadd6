"""Scripts for one process, their ports by hand, and edits of the ports."""
