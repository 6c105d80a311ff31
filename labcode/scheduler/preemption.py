"""Whom to preempt when the memory runs out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labcode.simulation.engine import Sequence as Seated


def latest_arrival(seated: Sequence[Seated]) -> Seated:
    """Return the seated sequence whose request arrived last (ties: the larger id), as the lecture's engine does."""
    return max(seated, key=lambda sequence: (sequence.request.arrival, sequence.request.id))
