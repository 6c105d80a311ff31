"""The reproduction ledger: every figure that the two seed documents state, and what this project computes.

A row says what is stated and where, what we get, how near the two must be, and whether they are.  A figure outside
its tolerance is a finding; the tolerance is not widened for it.

``python -m labcode ledger`` prints all rows, ``--json`` as data; the exit status is 1 if a row is not ok.
"""

from labcode.course.ledger.ledger import Row, ledger, table

__all__ = ["Row", "ledger", "table"]
