"""The report: one self-contained HTML page on one or several runs."""

from cclk.report.headline import summarize
from cclk.report.page import write_report
from cclk.report.run_view import view_run
from cclk.report.view import RunView

__all__ = ["RunView", "summarize", "view_run", "write_report"]
