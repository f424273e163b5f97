"""The report: one self-contained HTML page on one or several runs."""

from cclk.report.categories import category_names
from cclk.report.headline import summarize
from cclk.report.page import write_report
from cclk.report.view import Embedding, KernelFigure, RunView, SampleImages, embed2d, kernel_figure

__all__ = [
    "Embedding", "KernelFigure", "RunView", "SampleImages", "category_names", "embed2d",
    "kernel_figure", "summarize", "write_report",
]  # fmt: skip
