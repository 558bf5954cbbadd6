"""What runs inside a rank: one interpreter that is the script's own, and records what it does."""
