"""Lab of the front page: chapter 7's two engines under one clock, with one slider and nothing to read but the runs."""

from __future__ import annotations

from labcode.course.labs.ch07_flow import LENGTHS
from labcode.course.labs.ch07_flow import compute as both
from labcode.labkit.lab import Control, Lab, Result

SEATS = 4


def compute(rate: float) -> Result:
    """Serve chapter 7's requests, one answer in six long, with four seats."""
    seen = both(rate, SEATS, LENGTHS[2])
    return Result((), seen.headline, seen.flow)


LAB = Lab(
    "ch00-front",
    "One GPU, the same requests, two ways to share it",
    (Control("rate", "Arrival rate", (10, 15, 20, 30, 40, 60, 80), 40, "requests/s"),),
    compute,
    numbers=("paper",),
    plays=True,
)
