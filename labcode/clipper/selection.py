"""Which model answers: Exp3 picks one, Exp4 weighs all, and an ensemble does not wait for its slowest
member."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from labcode.checks import integer, positive


def _loss(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} = {value!r}: a loss must lie in [0, 1]")
    return float(value)


class Exp3:
    """Choose one of several models and learn only from its own feedback (an adversarial bandit).

    Model i is chosen with probability weight_i / sum of weights; feedback multiplies the chosen model's
    weight by exp(-rate * loss / probability). Dividing by the probability makes up for how rarely a model
    is asked. Source: Auer, Cesa-Bianchi, Freund and Schapire 2002, SIAM J. Computing 32; as in Crankshaw et
    al. 2017, section 5.1.
    """

    def __init__(self, models: int, rate: float = 0.1) -> None:
        self.log_weights = np.zeros(integer("models", models))
        self.rate = positive("rate", rate)

    @property
    def probabilities(self) -> np.ndarray:
        """Chance of each model to be chosen next (shape (models,))."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return weights / weights.sum()

    def choose(self, rng: np.random.Generator) -> int:
        """Draw the model that answers the next query."""
        return int(rng.choice(len(self.log_weights), p=self.probabilities))

    def feedback(self, chosen: int, loss: float) -> None:
        """Learn the loss, in [0, 1], of the model that answered."""
        self.log_weights[chosen] -= self.rate * _loss("loss", loss) / self.probabilities[chosen]


class Exp4:
    """Ask every model, weigh their answers, and learn from the loss of each.

    Feedback multiplies weight_i by exp(-rate * loss_i). Costs a query to every model, and can be better
    than the best of them. Source: Auer et al. 2002; Crankshaw et al. 2017, section 5.2.
    """

    def __init__(self, models: int, rate: float = 0.1) -> None:
        self.log_weights = np.zeros(integer("models", models))
        self.rate = positive("rate", rate)

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights (shape (models,))."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return weights / weights.sum()

    def feedback(self, losses: Sequence[float] | np.ndarray) -> None:
        """Learn the loss, in [0, 1], of every model."""
        if len(losses) != len(self.log_weights):
            raise ValueError(f"losses: {len(losses)} given, {len(self.log_weights)} models")
        self.log_weights -= self.rate * np.array([_loss(f"losses[{i}]", x) for i, x in enumerate(losses)])


@dataclass(frozen=True)
class Answer:
    """An ensemble's answer: label (None if nobody was in time), confidence, answers missing, seconds waited.

    `confidence` is the weight of the models that said so, out of the weight of all models, late ones
    included: a missing answer lowers the confidence and never raises it.
    """

    label: Hashable | None
    confidence: float
    missing: int
    latency: float


def ensemble_answer(labels: Sequence[Hashable], latencies: ArrayLike, weights: ArrayLike, deadline: float) -> Answer:
    """Combine the answers that arrive within `deadline` seconds by weighted vote (straggler mitigation).

    Returns as soon as all are there, at the deadline otherwise. Ties go to the label that came first in
    `labels`.
    """
    times, share = np.asarray(latencies, dtype=float), np.asarray(weights, dtype=float)
    if not len(labels) == len(times) == len(share) or not len(labels):
        raise ValueError(f"labels, latencies and weights: {len(labels)}, {len(times)}, {len(share)} given; one each")
    if np.any(share < 0) or share.sum() <= 0:
        raise ValueError("weights: at least 0 each and above 0 in sum are needed")
    in_time = times <= positive("deadline", deadline)
    votes: dict[Hashable, float] = {}
    for label, vote in zip((x for x, ok in zip(labels, in_time, strict=True) if ok), share[in_time], strict=True):
        votes[label] = votes.get(label, 0.0) + float(vote)
    winner = max(votes, key=lambda label: votes[label]) if votes else None
    confidence = votes[winner] / float(share.sum()) if votes else 0.0
    return Answer(winner, confidence, int((~in_time).sum()), float(min(times.max(), deadline)))
