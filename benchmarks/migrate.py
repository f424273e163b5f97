"""Rename settings in committed results: `python -m benchmarks.migrate results/*.json`.

A run is found finished by a key, the hash of its settings. This renames the settings and computes
the keys anew; a run whose old key is not that of its settings is an error. To be run once, with the
commit that renames the settings.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

NAMES = {
    "standardise": "standardize",
    "partners": "neighbors",
    "pictures": "images",
    "picture": "figure",
    "colours": "colors",
    "effective_partners": "effective_neighbors",
    "colour_r2": "color_r2",
}
TEXTS = [
    ("colour", "color"),
    ("partners", "neighbors"),
    ("training pictures per outcome", "training images per value"),
    ("samples per outcome", "samples per value"),
    ("Few samples per outcome", "Few samples per value"),
    ("--grey", "--gray"),
]


def key_of(settings: dict[str, Any], split: str, seed: int, data: str = "") -> str:
    kept = {name: value for name, value in settings.items() if name != "data_dir"}
    text = json.dumps([kept, split, seed, *([data] if data else [])], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def renamed(node: Any) -> Any:
    if isinstance(node, dict):
        return {NAMES.get(name, name): renamed(value) for name, value in node.items()}
    if isinstance(node, list):
        return [renamed(item) for item in node]
    if node == "outcomes":
        return "values"
    if isinstance(node, str):
        for old, new in TEXTS:
            node = re.sub(old, new, node)
    return node


def keys(tree: dict[str, Any], data: str) -> dict[str, str]:
    """Old keys to new ones, for all runs that the cells of a result can have."""
    found = {}
    common = tree.get("common", {})
    every = [choice for cell in tree.get("cells", []) for choice in cell.get("choices", [])]
    for cell in tree.get("cells", []):
        seeds = {run["seed"] for run in (*cell.get("tuning", []), *cell.get("runs", []))}
        choices = [{}, *cell.get("choices", []), *(every if cell.get("tuned_like") else [])]
        for choice, extra, split, seed in itertools.product(
            choices, ({}, {"holdout": 0}), ("validation", "test"), seeds
        ):
            settings = {**common, **cell["settings"], **choice, **extra}
            for fingerprint in ("", data):
                found[key_of(settings, split, seed, fingerprint)] = key_of(
                    renamed(settings), split, seed, fingerprint
                )
    return found


def main() -> None:
    from cclk.data.fingerprint import fingerprint
    from cclk.training.run import load_dataset
    from cclk.training.settings import load

    for path in map(Path, sys.argv[1:]):
        tree = json.loads(path.read_text())
        data = ""
        if path.name.startswith("frontier"):
            data = fingerprint(
                load_dataset(load(preset="digits-fair", overrides={"holdout": None}))
            )
        known = keys(tree, data) if "cells" in tree else {}
        new = renamed(tree)
        for cell in new.get("cells", []):
            for run in (*cell.get("tuning", []), *cell.get("runs", [])):
                if run["key"] in known:
                    run["key"] = known[run["key"]]
                else:
                    print(
                        f"{path}: {cell['row']}, {cell['column']}: the key {run['key']} is not that"
                        " of its settings"
                    )
        path.write_text(
            json.dumps(new, indent=1 if path.read_text().startswith('{\n "') else 2) + "\n"
        )


if __name__ == "__main__":
    main()
