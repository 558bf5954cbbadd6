"""What a training script does, found out without running it: kinds, placements, effects."""
