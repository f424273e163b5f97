"""A long training: memory, threads, file handles and step time must not grow."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from benchmarks.faults.bench import Bench

_MEMORY = 1.1
_SLOWER = 1.5
"""Largest accepted ratio of the last tenth to the second tenth."""


def soak(bench: Bench) -> None:
    """Train many steps and compare the second tenth with the last."""
    steps = bench.scale.soak_steps
    if not steps:
        return
    if sys.platform != "linux":
        bench.note("processes are observed in /proc, which only Linux has: no soak")
        return
    row = bench.row("cclk train", f"{steps:,} steps (soak)")
    folder = bench.path()
    changes = {"steps": steps, "batch_size": 64, "checkpoint_every": 500, "log_every": 50}
    command = bench.start(*bench.training(folder, **changes), fresh=True)
    samples: list[tuple[int, float, int, int]] = []
    task = bench.progress.add_task(f"{row.group}: {row.fault}", total=steps)
    while command.running():
        sample = _observe(command.pid, folder)
        if sample:
            samples.append(sample)
            bench.progress.update(task, completed=sample[0])
        time.sleep(0.5)
    done = command.wait()
    lines = [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]
    early = [sample for sample in samples if 0.1 <= sample[0] / steps < 0.2]
    late = [sample for sample in samples if sample[0] / steps >= 0.9]
    if done.code or not early or not late:
        row.add("did not finish", lost=True, unexpected=str(done))
        return
    for number, name in enumerate(("resident MiB", "threads", "file handles"), 1):
        for when, part in (("early", early), ("late", late)):
            values = [sample[number] for sample in part]
            row.measured[f"{name}, {when}"] = round(statistics.median(values), 1)
    for when, low, high in (("early", 0.1, 0.2), ("late", 0.9, 1.1)):
        times = [
            64e3 / line["samples_per_second"]
            for line in lines
            if low <= line["step"] / steps < high
        ]
        # The fastest tenth: others use the machine too.
        row.measured[f"milliseconds per step, {when}"] = round(
            statistics.quantiles(times, n=10)[0], 3
        )
    limits = {"resident MiB": _MEMORY, "threads": 1.0, "file handles": 1.0}
    limits["milliseconds per step"] = _SLOWER
    grown = [
        name
        for name, limit in limits.items()
        if row.measured[f"{name}, late"] > limit * row.measured[f"{name}, early"]
    ]
    row.add("no growth" if not grown else "growth", unexpected=", ".join(grown))


def _observe(pid: int, folder: Path) -> tuple[int, float, int, int] | None:
    """The newest checkpoint's step, resident MiB, threads and file handles of a process."""
    try:
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        handles = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        newest = max(path.stem for path in (folder / "checkpoints").glob("step-*.safetensors"))
        memory = int(status["VmRSS"].split()[0]) / 1024
    except (OSError, ValueError, KeyError):
        return None
    return int(newest.partition("-")[2]), memory, int(status["Threads"]), handles
