"""Training: optimizers, schedule and the loop."""
