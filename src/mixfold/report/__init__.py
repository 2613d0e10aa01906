"""Pages about a fitted mixture: the report, and the live page of a stream."""

from mixfold.report.watching import watch
from mixfold.report.writing import write_report

__all__ = ["watch", "write_report"]
