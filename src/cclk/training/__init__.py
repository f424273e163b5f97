"""Training: settings, methods, the `Trainer`, and run folders."""
