"""What the chapters need: labs, answers, the ledger, recorded evidence.  A notebook imports `show` and `check`."""

from labcode.course.exercises import check
from labcode.course.labs import show

__all__ = ["check", "show"]
