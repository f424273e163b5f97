"""Suggestions for misspelled names of options, settings and values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

SYNONYMS = {
    "algorithm": "method",
    "loss": "method",
    "objective": "method",
    "basedir": "data-dir",
    "dataroot": "data-dir",
    "root": "data-dir",
    "csv": "data",
    "file": "data",
    "input": "data",
    "path": "data",
    "table": "data",
    "img": "image",
    "images": "image",
    "columns": "features",
    "inputs": "features",
    "x": "features",
    "attribute": "condition",
    "confounder": "condition",
    "nuisance": "condition",
    "protected": "condition",
    "sensitive": "condition",
    "sensitivefeatures": "condition",
    "z": "condition",
    "class": "label",
    "target": "label",
    "y": "label",
    "id": "row-id",
    "grayscale": "gray",
    "greyscale": "gray",
    "imagesize": "image-size",
    "imgsize": "image-size",
    "resolution": "image-size",
    "size": "image-size",
    "val": "holdout",
    "valsize": "holdout",
    "validation": "holdout",
    "transform": "augmentation",
    "transforms": "augmentation",
    "arch": "encoder",
    "architecture": "encoder",
    "backbone": "encoder",
    "model": "encoder",
    "network": "encoder",
    "projectiondim": "projection",
    "projdim": "projection",
    "t": "temperature",
    "tau": "temperature",
    "bandwidth": "length-scale",
    "gamma": "length-scale",
    "sigma": "length-scale",
    "alpha": "ridge",
    "lambda": "ridge",
    "reg": "ridge",
    "regularization": "ridge",
    "similarity": "kernel",
    "learningrate": "lr",
    "eta": "lr",
    "opt": "optimizer",
    "l2": "weight-decay",
    "wd": "weight-decay",
    "batch": "batch-size",
    "batchsize": "batch-size",
    "bs": "batch-size",
    "maxepochs": "epochs",
    "nepochs": "epochs",
    "numepochs": "epochs",
    "iterations": "steps",
    "iters": "steps",
    "maxsteps": "steps",
    "numsteps": "steps",
    "trainsteps": "steps",
    "momentumencoder": "ema",
    "amp": "precision",
    "bf16": "precision",
    "fp16": "precision",
    "gpus": "devices",
    "ngpus": "devices",
    "numgpus": "devices",
    "nproc": "devices",
    "nprocpernode": "devices",
    "numprocesses": "devices",
    "randomseed": "seed",
    "randomstate": "seed",
    "logdir": "out",
    "output": "out",
    "outputdir": "out",
    "outdir": "out",
    "savedir": "out",
    "rundir": "out",
    "o": "out",
    "checkpoint": "resume",
    "continue": "resume",
    "ckpt": "resume",
    "silent": "quiet",
    # values
    "bfloat": "bfloat16",
    "float": "float32",
    "fp32": "float32",
    "categorical": "delta",
    "gaussian": "rbf",
    "laplace": "laplacian",
    "poly": "polynomial",
    "simclr": "infonce",
    "supcon": "weaksup-infonce",
}
"""Names of options and values in other tools, without dashes, to their names in this one."""


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that a wrong one may stand for: its synonym, else those that start or
    end with it, else the most similar one.

    Args:
        name: The wrong name.
        known: The known names.

    Example:
        >>> similar("fair", ["fair-infonce", "fair-cclk"]), similar("learning_rate", ["lr", "lars"])
        (['fair-cclk', 'fair-infonce'], ['lr'])
    """
    names = {each.lower().replace("_", "-"): each for each in known}
    plain = name.lower().replace("_", "-")
    bare = {each.replace("-", ""): each for each in names}
    synonym = SYNONYMS.get(plain.replace("-", ""), "")
    if exact := names.get(synonym) or names.get(bare.get(plain.replace("-", ""), "")):
        return [exact]
    parts = sorted(
        (
            each
            for each in names
            if len(plain) > 2 and (each.startswith(plain) or each.endswith(f"-{plain}"))
        ),
        key=len,
    )
    return [names[each] for each in parts[:3] or difflib.get_close_matches(plain, names, n=1)]


def suggestion(name: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """Return the end of an error message, " (did you mean 'lr'?)", or "".

    Args:
        name: The wrong name.
        known: The known names; of a mapping, keys are compared and values are shown.
    """
    shown = [
        repr(known[each] if isinstance(known, Mapping) else each) for each in similar(name, known)
    ]
    return f" (did you mean {' or '.join(shown)}?)" if shown else ""
