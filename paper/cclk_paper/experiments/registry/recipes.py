"""Settings that several experiments share: budgets, recipes, and choices to select from."""

from __future__ import annotations

from cclk_paper.experiments.measure import Measure
from cclk_paper.experiments.plan import Overrides

LEAKAGE: tuple[Measure, ...] = (
    "accuracy", "knn", "linear_r2", "nonlinear_r2", "linear_mse", "baseline_mse",
)  # fmt: skip

# ColorMNIST, the paper's budget.
FAIR_BUDGET: Overrides = {
    "dataset": "colormnist", "holdout": 5000, "encoder": "lenet5",
    "batch_size": 256, "steps": 1175, "log_every": 100,
}  # fmt: skip
FAIR_SMOKE: Overrides = {
    "dataset": "colordigits", "encoder": "lenet5", "batch_size": 64, "steps": 8, "warmup": 0,
}  # fmt: skip
SMOKE_ROWS = 100
"""Rows of each split that are measured where measuring takes longer than a few steps."""
# The authors' release for ColorMNIST: with a warmup of 10 epochs and 1,175 steps, the learning rate
# is still rising at the end.
FAIR_RELEASE: Overrides = {
    "holdout": 0,
    "optimizer": "lars", "lr": 1e-3, "scale_lr": True, "weight_decay": 1e-4, "warmup": 10,
    "augmentation_options": {"crop": [0.08, 1.0], "flip": 0.5},
    "temperature": 0.1, "weights": "authors", "ridge": 0.01, "standardize": False,
}  # fmt: skip
FAIR_OURS: Overrides = {
    "optimizer": "adamw", "weight_decay": 0.1, "warmup": 2,
    "augmentation_options": {"crop": [0.25, 1.0]}, "weights": "nw",
}  # fmt: skip
LOCAL: Overrides = {"sampler": "local"}
"""Batches of similar colors: for Fair-CCLK what batches of one cluster are for Fair-InfoNCE."""
GENTLE: Overrides = {
    "temperature": 0.05, "weight_decay": 0.0, "warmup": 0,
    "augmentation_options": {"crop": [0.4, 1.0]},
}  # fmt: skip
"""For small learning rates: methods that lose the digit during training."""
FAIR_CHOICES: tuple[Overrides, ...] = (
    *({"lr": lr, **GENTLE} for lr in (1e-5, 3e-5, 1e-4, 3e-4)),
    *({"lr": lr, "temperature": 0.05} for lr in (3e-4, 1e-3, 3e-3)),
    *({"lr": lr, "temperature": 0.2} for lr in (1e-3, 3e-3, 6e-3)),
    *(
        {"lr": lr, "temperature": 0.2, "optimizer": "sgd", "weight_decay": 3e-3}
        for lr in (0.05, 0.1)
    ),
)
FAIR_RECIPE: Overrides = {
    **FAIR_OURS, **LOCAL, "method": "fair-cclk", "lr": 6e-3, "temperature": 0.2,
}  # fmt: skip

# The paper's large runs.
LARGE: Overrides = {
    "encoder": "resnet50", "head": "mlp", "augmentation": "simclr", "temperature": 0.5,
    "optimizer": "lars", "lr": 1.5, "scale_lr": True, "weight_decay": 1e-6, "warmup": 10,
}  # fmt: skip
SMALL_IMAGES: Overrides = {
    **LARGE, "encoder_options": {"stem": "cifar", "zero_init_residual": True},
}  # fmt: skip
LARGE_IMAGES: Overrides = {
    **LARGE, "encoder_options": {"stem": "imagenet", "zero_init_residual": True},
}  # fmt: skip
UNSCALED: Overrides = {"standardize": False}
"""Attributes and embeddings as in the paper: rare attributes do not count more than common ones."""
ZAPPOS: Overrides = {
    **SMALL_IMAGES, **UNSCALED, "dataset": "ut-zappos", "batch_size": 152, "epochs": 1000,
}  # fmt: skip
CUB: Overrides = {
    **LARGE_IMAGES, **UNSCALED, "dataset": "cub", "batch_size": 128, "epochs": 1000,
}  # fmt: skip
IMAGENET: Overrides = {**LARGE_IMAGES, "dataset": "imagenet-100", "epochs": 200}
IMAGENET_CLIP: Overrides = {
    **IMAGENET, **UNSCALED, "batch_size": 128,
    "dataset_options": {"features": "features/imagenet-100-clip.npz"},
}  # fmt: skip

# Their substitutes on two cores.
FASHION: Overrides = {
    "dataset": "fashion-mnist", "encoder": "lenet5", "batch_size": 256, "steps": 300,
    "warmup": 1, "lr": 3e-3, "temperature": 0.2,
    "augmentation": "digits", "augmentation_options": {"flip": 0.5}, "log_every": 100,
}  # fmt: skip
CIFAR: Overrides = {
    "dataset": "cifar10", "encoder": "resnet18",
    "encoder_options": {"stem": "cifar", "width": 16, "blocks": [1, 1, 1, 1]},
    "augmentation": "simclr", "augmentation_options": {"size": 16, "crop": [0.2, 1.0]},
    "batch_size": 256, "steps": 1000, "optimizer": "adamw", "lr": 2e-2, "weight_decay": 0.05,
    "warmup": 1, "temperature": 0.2, "log_every": 100,
}  # fmt: skip
"""A ResNet-9 of 0.3 M parameters on crops of 16 pixels: six minutes on one core. Its rate
was selected with InfoNCE."""
FASHION_16: Overrides = {"pixels": 16}
"""Options of Fashion-MNIST: images of 16 pixels."""
FASHION_RESNET: Overrides = {
    **CIFAR, "dataset": "fashion-mnist", "dataset_options": FASHION_16, "steps": 600,
}  # fmt: skip
"""The same network on images of 16 pixels: four minutes on one core."""
CIFAR_SHORT: Overrides = {**CIFAR, "steps": 400}
"""For selecting settings: large effects only."""
DIGITS_SMOKE: Overrides = {
    "dataset": "colordigits", "encoder": "lenet5", "batch_size": 64, "steps": 6,
}  # fmt: skip
SEGMENTS: Overrides = {"segments": True}
"""Options of the small dataset whose condition are the seven segments of its digits."""
