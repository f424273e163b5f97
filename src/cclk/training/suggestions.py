"""Did you mean: names of options, settings and values that resemble what was given."""

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
    "gray": "gray",
    "grayscale": "gray",
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
    "memorybank": "queue",
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
"""What other tools call an option or a value, without dashes, to what it is called here."""


def similar(word: str, known: Iterable[str]) -> list[str]:
    """The known words that a wrong one may stand for: its synonym, else those that begin or end
    with it, else the most alike.

    >>> similar("fair", ["fair-infonce", "fair-cclk"]), similar("learning_rate", ["lr", "lars"])
    (['fair-cclk', 'fair-infonce'], ['lr'])
    """
    names = {name.lower().replace("_", "-"): name for name in known}
    plain = word.lower().replace("_", "-")
    bare = {name.replace("-", ""): name for name in names}
    synonym = SYNONYMS.get(plain.replace("-", ""), "")
    if exact := names.get(synonym) or names.get(bare.get(plain.replace("-", ""), "")):
        return [exact]
    parts = sorted(
        (
            name
            for name in names
            if len(plain) > 2 and (name.startswith(plain) or name.endswith(f"-{plain}"))
        ),
        key=len,
    )
    return [names[name] for name in parts[:3] or difflib.get_close_matches(plain, names, n=1)]


def suggestion(word: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """The end of an error message: " (did you mean 'lr'?)", or nothing. Of a mapping, keys are
    compared and values are told.
    """
    told = [
        repr(known[name] if isinstance(known, Mapping) else name) for name in similar(word, known)
    ]
    return f" (did you mean {' or '.join(told)}?)" if told else ""
