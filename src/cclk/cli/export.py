"""`cclk export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from cclk.cli.output import QUIET, TRUST_CODE, notify

_FORMAT = Parameter(help="onnx, safetensors, or torch (a program of torch.export)")
_OUT = Parameter(help="file to write; default: RUN/export.onnx, .safetensors or .pt2")
_ERASE = Parameter(
    help="linear: erase every linear trace of the condition in the last layer; needs the data"
)


def export(
    run: Annotated[Path, Parameter(help="folder of a finished run")],
    *,
    format: Annotated[Literal["onnx", "safetensors", "torch"], _FORMAT] = "onnx",  # noqa: A002
    out: Annotated[Path | None, _OUT] = None,
    erase: Annotated[Literal["linear"] | None, _ERASE] = None,
    trust_code: Annotated[list[str] | None, TRUST_CODE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Write the encoder of a run in the format of other tools, verified to give the same features.

    `cclk export runs/people --format onnx`

    `cclk export runs/people --erase linear`
    """
    from cclk.run import Run

    notify(
        f"written: {Run(run, trust_code=trust_code or False).export(format, out, erase=erase)}",
        quiet,
    )
