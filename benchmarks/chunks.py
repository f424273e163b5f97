"""Memory of a large batch in chunks: `python -m benchmarks.chunks [--json FILE]`.

A batch of 8,192 samples that `cclk.backward_in_chunks` embeds 128 at a time, with ResNet-18 and
Fair-CCLK: its peak memory beside that of a plain step with a batch of 128, and its gradients beside
those of the full batch at once. Images are small, so that the full batch fits too. Batch
normalization uses its running statistics, because otherwise it mixes the samples of a chunk. Each
step runs in a process of its own, and its memory is that above the inputs and the network.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import cclk
from benchmarks.common import write_result
from benchmarks.loss import read_peak, reset_peak
from cclk import kernels
from cclk.models.resnet import ResNet18

SIZE, CHUNK, PIXELS = 8192, 128, 8


def step(kind: str, size: int, pixels: int, out: str) -> None:
    """Run one step, and save its gradients, its peak memory and its time."""
    torch.manual_seed(0)
    network = ResNet18(3, stem="cifar").eval()
    warm = torch.rand(8, 3, pixels, pixels)
    network(warm).sum().backward()
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    x, y = torch.rand(2, size, 3, pixels, pixels)
    z = torch.randn(size)
    loss = cclk.FairCCLK(kernels.RBF().fit(z, batch_size=size))
    before, start = reset_peak(), time.perf_counter()
    if kind == "chunks":
        cclk.backward_in_chunks(network, (x, y), lambda a, b: loss(a, b, z), chunk=CHUNK)
    else:
        loss(network(x), network(y), z).backward()
    result = {"seconds": time.perf_counter() - start, "bytes": read_peak() - before}
    gradients = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
    save_file({"gradients": gradients}, f"{out}.safetensors")
    Path(f"{out}.json").write_text(json.dumps(result), encoding="utf-8")


def measured(kind: str, size: int, pixels: int, folder: str) -> tuple[dict[str, float], Tensor]:
    """Run a step in a process of its own."""
    out = f"{folder}/{kind}-{size}"
    process = multiprocessing.get_context("spawn").Process(
        target=step, args=(kind, size, pixels, out)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the step of {size} samples ({kind}) ended with {process.exitcode}")
    result: dict[str, float] = json.loads(Path(f"{out}.json").read_text(encoding="utf-8"))
    gradients: Tensor = load_file(f"{out}.safetensors")["gradients"]
    print(
        f"{kind}, {size:,} samples: {result['bytes'] / 2**20:,.0f} MiB, {result['seconds']:.1f} s"
    )
    return result, gradients


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=SIZE, help="samples (default: %(default)s)")
    parser.add_argument("--pixels", type=int, default=PIXELS, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    size, pixels = arguments.size, arguments.pixels
    with tempfile.TemporaryDirectory() as folder:
        plain, _ = measured("plain", CHUNK, pixels, folder)
        chunked, gradients = measured("chunks", size, pixels, folder)
        full, expected = measured("plain", size, pixels, folder)
    difference = float((gradients - expected).norm() / expected.norm())
    ratio = chunked["bytes"] / plain["bytes"]
    print(f"memory {ratio:.2f} of a plain step of {CHUNK}; gradients differ by {difference:.1e}")
    result = {
        "size": size,
        "chunk": CHUNK,
        "pixels": pixels,
        "mib": {
            name: round(each["bytes"] / 2**20, 1)
            for name, each in (("plain", plain), ("chunks", chunked), ("full", full))
        },
        "seconds": {"chunks": chunked["seconds"], "full": full["seconds"]},
        "memory_ratio": round(ratio, 3),
        "relative_difference": difference,
    }
    write_result(arguments.json, "chunks", result)


if __name__ == "__main__":
    main()
