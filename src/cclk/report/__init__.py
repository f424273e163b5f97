"""The report: one self-contained HTML page about one or several runs."""

from cclk.report.categories import category_names
from cclk.report.headline import summarize
from cclk.report.page import write_report
from cclk.report.view import Embedding, KernelPicture, RunView, SamplePictures, embed2d, picture_kernel

__all__ = [
    "Embedding",
    "KernelPicture",
    "RunView",
    "SamplePictures",
    "category_names",
    "embed2d",
    "picture_kernel",
    "summarize",
    "write_report",
]
