"""The answer of `capacity.plan_capacity`: a setting, what one replica does with it, how many replicas it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labcode.experiments.intervals import Interval
from labcode.results.metrics import SLO


@dataclass(frozen=True)
class Setting:
    """What an engine is told, one replica like another."""

    max_bs: int
    memory: str
    watermark: float
    prefill: str

    def options(self) -> dict[str, Any]:
        """Return the options of `simulate`; chunks have a budget of 512 tokens, or one for each place."""
        budget = {"token_budget": max(512, self.max_bs)} if self.prefill == "chunked" else {}
        kept = {"watermark": self.watermark} if self.watermark else {}
        return {"max_bs": self.max_bs, "memory": self.memory, "prefill": self.prefill, **kept, **budget}

    def __str__(self) -> str:
        kept = f", watermark {self.watermark:g}" if self.watermark else ""
        return f"max_bs {self.max_bs}, memory {self.memory}{kept}, prefill {self.prefill}"


@dataclass(frozen=True)
class Rated:
    """What one replica can do with a setting, under one price.

    Attributes
    ----------
    rate : Interval
        Largest rate within the SLO, at most the drain rate (requests/s), over resampled traces.
    drain : Interval
        The drain rate.
    """

    setting: Setting
    cost: str
    rate: Interval
    drain: Interval


@dataclass(frozen=True)
class Sizing:
    """How many replicas are enough, under one price.

    Attributes
    ----------
    replicas : tuple of int
        The smallest number that keeps the SLO: of the trace itself first, then of every resampled one; 0 if none does.
    attainment : tuple of (int, float)
        Share of the trace's requests within the SLO, by number of replicas.
    """

    cost: str
    replicas: tuple[int, ...]
    attainment: tuple[tuple[int, float], ...]

    @property
    def least(self) -> int:
        """The smallest of the numbers; 0 if for some trace none is enough."""
        return min(self.replicas)

    @property
    def most(self) -> int:
        """The largest of the numbers."""
        return max(self.replicas)

    def spread(self) -> str:
        """Return the smallest and the largest number in words."""
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class CapacityPlan:
    """The answer, and all that it rests on.

    Attributes
    ----------
    faster : dict of str to float
        By which factor, at most 4, all resampled traces may come faster before so many replicas miss the SLO, by price.
    ceiling : float
        Share of the requests that meet the SLO alone on a replica.
    """

    trace: str
    requests: int
    rate: float
    model: str
    gpu: str
    per_replica: int
    slo: SLO
    attainment: float
    setting: Setting
    rated: tuple[Rated, ...]
    sizing: tuple[Sizing, ...]
    faster: dict[str, float]
    ceiling: float
    assumptions: tuple[str, ...]

    @property
    def replicas(self) -> int:
        """Enough for the trace and for every resampled one, under the dearer price; 0 if no number is."""
        return max(one.most for one in self.sizing) if all(one.least for one in self.sizing) else 0

    @property
    def gpus(self) -> int:
        """GPUs for that many replicas."""
        return self.replicas * self.per_replica

    @property
    def as_good(self) -> tuple[Setting, ...]:
        """Other settings of which the rate is within 1 % of the chosen one's, under every price."""
        best = {one.cost: one.rate.mean for one in self.rated if one.setting == self.setting}
        worse = {one.setting for one in self.rated if one.rate.mean < 0.99 * best[one.cost]}
        others = dict.fromkeys(one.setting for one in self.rated if one.setting != self.setting)
        return tuple(one for one in others if one not in worse)

    def verdict(self) -> str:
        """Return the answer in a sentence or two."""
        slo = f"TTFT ≤ {self.slo.ttft:g} s and TPOT ≤ {1000 * (self.slo.tpot or 0):g} ms"
        if not self.replicas:
            return (
                f"No number of {self.gpu} keeps {slo} for {self.attainment:.0%} of these requests: even alone on a "
                f"replica only {self.ceiling:.1%} of them meet it, or a single burst breaks it."
            )
        spread = "; ".join(f"{one.cost} price {one.spread()}" for one in self.sizing)
        shape = f"{self.replicas} replica{'s' * (self.replicas > 1)} of {self.per_replica}"
        return (
            f"{self.gpus} x {self.gpu} ({shape}) for {self.rate:.3g} requests/s "
            f"with {slo} for {self.attainment:.0%}: {self.setting} (replicas over resampled traces: {spread})."
        )

    def headroom(self) -> str:
        """Return how much more the replicas can take, and how the setting was chosen, in words."""
        chosen = "The setting is the one with the largest product of the rates under all prices"
        if not self.replicas:
            return f"{chosen}."
        more = " and ".join(f"{factor:.2f} times the rate ({cost} price)" for cost, factor in self.faster.items())
        return f"The same replicas keep the SLO for all resampled traces up to {more}. {chosen}."

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""

        def interval(one: Interval) -> dict[str, float]:
            return {"mean": one.mean, "low": max(0.0, one.low), "high": one.high}

        return {
            "trace": self.trace,
            "requests": self.requests,
            "rate_per_s": self.rate,
            "model": self.model,
            "gpu": self.gpu,
            "slo": {"ttft_s": self.slo.ttft, "tpot_s": self.slo.tpot, "attainment": self.attainment},
            "gpus": self.gpus,
            "replicas": self.replicas,
            "gpus_per_replica": self.per_replica,
            "headroom": self.faster if self.replicas else None,
            "setting": self.setting.options(),
            "as_good": [one.options() for one in self.as_good],
            "ceiling": self.ceiling,
            "sizing": [{"cost": one.cost, "replicas": list(one.replicas)} for one in self.sizing],
            "rated": [
                {
                    "setting": one.setting.options(),
                    "cost": one.cost,
                    "rate_per_s": interval(one.rate),
                    "drain_per_s": interval(one.drain),
                }
                for one in self.rated
            ],
            "assumptions": list(self.assumptions),
            "verdict": self.verdict(),
        }
