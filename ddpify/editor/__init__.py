"""``ddpify server``: findings, fixes, rule pages and conversion in an editor."""
