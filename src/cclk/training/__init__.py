"""Training: optimisers, schedule and the loop."""
