"""What can become of a request: one set of names and codes, for simulated runs and measured logs alike.

The outcomes of all requests always add up to those submitted.
"""

from __future__ import annotations

#: Names, in the order of their codes.
OUTCOMES = ("finished", "refused", "cancelled", "timed_out", "failed", "unfinished", "unknown")
(
    FINISHED,  # got all its tokens
    REFUSED,  # never admitted; there is a reason
    CANCELLED,  # withdrawn by the client
    TIMED_OUT,  # ran past its deadline
    FAILED,  # an error of server or network, with or without output
    UNFINISHED,  # still there when the observation ended
    UNKNOWN,  # a log does not say
) = range(len(OUTCOMES))
