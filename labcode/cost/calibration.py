"""From measured steps to a cost model: what this machine's steps cost, and how sure that is.

Three uses: to simulate the machine at hand; to predict the next step of a server; and to fill a step up to a time
budget.  For the last, what counts is the time of the *whole* step: the prices of its sequences do not add up, since
all of them share what is fixed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from labcode.checks import fraction, integer, positive
from labcode.cost.base import CostModel
from labcode.cost.formula import Roofline
from labcode.cost.roofline import RooflineCost
from labcode.cost.step import StepShape

Floats = NDArray[np.float64]

#: A step and how long it took, s.
Sample = tuple[StepShape, float]


def measure(
    run: Callable[[StepShape], object],
    shapes: Iterable[StepShape],
    repeat: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Sample]:
    """Time steps on this machine.

    Parameters
    ----------
    run : function
        Carries out a step of the given shape.
    shapes : iterable of StepShape
    repeat : int
        How often each is timed, after one run that is not; the median counts.
    clock : function
        Seconds since some moment.
    """
    repeat = integer("repeat", repeat)
    samples = []
    for shape in shapes:
        run(shape)
        times = []
        for _ in range(repeat):
            start = clock()
            run(shape)
            times.append(clock() - start)
        samples.append((shape, float(np.median(times))))
    return samples


@dataclass(frozen=True, eq=False)
class Calibration:
    """A cost model fitted to measured steps.

    Attributes
    ----------
    cost : RooflineCost
        A sum: fixed + a share for each new token, sequence, query-key pair and cached position.
    seconds : shape (n,)
        What was measured.
    errors : shape (n,)
        Of the model on the same steps, relative: model / measured - 1.
    rank : int
        How many of the five prices the steps can tell apart.  Pure decodes, for instance, have as many new tokens as
        sequences and as many pairs as positions: rank 3 at most.  Such a model holds for steps of the kinds that
        were measured, and says nothing about others.
    """

    cost: RooflineCost
    seconds: Floats
    errors: Floats
    rank: int

    @property
    def bias(self) -> float:
        """Mean of the relative errors."""
        return float(self.errors.mean())

    @property
    def typical_error(self) -> float:
        """Median of the absolute relative errors."""
        return float(np.median(np.abs(self.errors)))


def fit(samples: Sequence[Sample]) -> Calibration:
    """Fit the price of a step to measured ones.

    ``fixed + a * new + b * seqs + c * pairs + d * kv`` with coefficients of at least 0 that minimise the sum of the
    squares of the *relative* errors (non-negative least squares, Lawson and Hanson 1974), so that a step of a
    millisecond counts as much as one of a second.

    Raises
    ------
    ValueError
        If there are fewer than two samples, or a time is not a finite number above 0.
    """
    shapes, seconds = _checked(samples, at_least=2)
    sums = np.array([(1.0, shape.new, shape.seqs, shape.pairs, shape.kv) for shape in shapes])
    rows = sums / seconds[:, None]
    units = np.linalg.norm(rows, axis=0)  # columns differ by orders of magnitude; solvers dislike that
    scaled, _ = nnls(rows / units, np.ones(len(rows)))
    fixed, per_new, per_sequence, per_pair, per_position = map(float, scaled / units)
    cost = RooflineCost(Roofline(fixed, 0.0, per_position, per_new, per_sequence, per_pair), p=1.0)
    modelled = np.array([cost.step_time(shape) for shape in shapes])
    return Calibration(cost, seconds, modelled / seconds - 1, int(np.linalg.matrix_rank(rows / units)))


@dataclass(frozen=True)
class StepTimeEstimate(CostModel):
    """A cautious prediction of whole steps: a cost model times a margin, which most steps stay within.

    Attributes
    ----------
    cost : CostModel
        What it rests on.
    margin : float
        Factor on the model's times, above 0.
    """

    cost: CostModel
    margin: float

    def __post_init__(self) -> None:
        positive("margin", self.margin)

    def step_time(self, shape: StepShape) -> float:
        """Return the predicted duration of a step in seconds."""
        return self.margin * self.cost.step_time(shape)

    def decode_times(self, n_decode: ArrayLike, kv: ArrayLike) -> Floats:
        """Return the predicted durations of decode-only steps (s), for arrays."""
        return self.margin * self.cost.decode_times(n_decode, kv)

    def judge(self, samples: Sequence[Sample]) -> Judgement:
        """Return how the prediction does on steps that it has not seen."""
        shapes, seconds = _checked(samples, at_least=1)
        predicted = np.array([self.step_time(shape) for shape in shapes])
        return Judgement(float((predicted / seconds - 1).mean()), float((seconds <= predicted).mean()), len(seconds))


@dataclass(frozen=True)
class Judgement:
    """How a prediction did.

    Attributes
    ----------
    bias : float
        Mean of predicted / measured - 1: above 0 where it asks for more time than a step takes.
    coverage : float
        Share of the steps that took no longer than predicted.
    n : int
        Steps.
    """

    bias: float
    coverage: float
    n: int


def estimate(cost: CostModel, samples: Sequence[Sample], coverage: float = 0.9) -> StepTimeEstimate:
    """Return a prediction that a share `coverage` of steps like `samples` stays within.

    The margin is the k-th smallest of measured / modelled over the samples, k = ceil((n + 1) coverage).  For a
    further step of the same kind all n + 1 ranks of its own ratio are equally likely, so that it stays within the
    margin with a probability of at least `coverage` (split conformal prediction: Papadopoulos et al. 2002, Lei et al.
    2018).  That holds only if `cost` was not fitted to these very samples, and if the machine is the same for all:
    on one that others use too, take the steps for the fit and for the margin in turn, not one set after the other.

    Raises
    ------
    ValueError
        If `coverage` is not in (0, 1), or there are too few samples for it.
    """
    if fraction("coverage", coverage) == 1:
        raise ValueError("coverage = 1: must be below 1, no finite margin holds for ever")
    # The hair keeps 0.9 * 10 at 9: a product that is whole but for rounding must not be rounded up.
    needed = math.ceil(coverage / (1 - coverage) - 1e-9)
    shapes, seconds = _checked(samples, at_least=needed)
    modelled = np.array([cost.step_time(shape) for shape in shapes])
    rank = math.ceil((len(seconds) + 1) * coverage - 1e-9)
    return StepTimeEstimate(cost, float(np.sort(seconds / modelled)[rank - 1]))


def _checked(samples: Sequence[Sample], at_least: int) -> tuple[list[StepShape], Floats]:
    """Return shapes and seconds apart, after a look at both."""
    if len(samples) < at_least:
        raise ValueError(f"samples: {len(samples)} steps, but at least {at_least} are needed")
    shapes, seconds = [shape for shape, _ in samples], np.array([float(time) for _, time in samples])
    for shape, duration in zip(shapes, seconds, strict=True):
        if not shape.seqs:
            raise ValueError("samples: a step without a sequence")
        if not (np.isfinite(duration) and duration > 0):
            raise ValueError(f"samples: a step took {duration} s; a finite time above 0 is needed")
    return shapes, seconds
