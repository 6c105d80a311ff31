"""A goal that a reader can reach with a lab's controls, and settings worth a look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.labkit.panel import said

if TYPE_CHECKING:
    from labcode.labkit.lab import Result


@dataclass(frozen=True)
class Challenge:
    """A goal, and how to tell that it is reached.

    Parameters
    ----------
    goal : str
        What is to be reached, with its limits, e.g. "90 % within the SLO at 48 requests/s without an oracle."
    met : callable
        ``met(params, result) -> bool``. A test holds that some setting meets it, the default does not, and few do.
    """

    goal: str
    met: Callable[[dict[str, Any], Result], bool]

    def __post_init__(self) -> None:
        object.__setattr__(self, "goal", said("Challenge goal", self.goal))
        if not callable(self.met):
            raise ValueError(f"Challenge {self.goal!r}: met must be a function of params and result")
