"""The lecture's figures about Clipper: rows L07 to L11 and L13 of the ledger.

Toy parameters are documented where they stand. The lecture does not print its own for L11, so those here
were fitted to its two busy shares; everything else about the two runs then follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from labcode.clipper.controllers import AIMD, Controller, FixedBatch, QuantileRegression
from labcode.clipper.delayed import DelayedRun, serve_queue, simulate_delayed, unbatched_rate
from labcode.clipper.profiles import MEDIUM, TOYS, LatencyProfile, decode_limit
from labcode.clipper.simulate import ControllerRun, SlowPhase, simulate_controller
from labcode.experiments.intervals import Interval, t_interval

SLO = 0.020
HEADROOM = 0.018
SEEDS = tuple(range(20))
STEADY = (100, 300)  # batches after the climb from 1 and before the slow phase
SLOW = (300, 500)

# Fitted so that +2 ms takes the busy share from 0.64 to 0.40 at 80 % of the unbatched capacity.
HIGH_FIXED = LatencyProfile(0.0017, 0.00015, name="high fixed cost")
# Nearly all of its cost is per input, like a model that is already efficient on small batches.
LOW_FIXED = LatencyProfile(0.00002, 0.0002, name="low fixed cost")


def exercise_2() -> dict[str, float]:
    """L07: profile 3 + 0.5 B ms and a target of 20 ms; the doubled slope; AIMD from the new limit, without
    noise."""
    clean = LatencyProfile(0.003, 0.0005)
    slow = LatencyProfile(0.003, 0.001)
    limit, slow_limit = clean.max_batch(SLO), slow.max_batch(SLO)

    def run(profile: LatencyProfile, controller: Controller) -> ControllerRun:
        return simulate_controller(profile, controller, 40, rng=np.random.default_rng(0))

    old = run(slow, FixedBatch(limit))
    probing = run(slow, AIMD(SLO, start=slow_limit))
    late = int(np.argmax(probing.latency > SLO))
    return {
        "max_batch": limit,
        "qps": run(clean, FixedBatch(limit)).throughput(),
        "slow_latency": float(old.latency.max()),
        "slow_late_share": old.late_share(SLO),
        "slow_max_batch": slow_limit,
        "batches_until_late": late,
        "times_out_at": int(probing.batch[late]),
        "backs_off_to": int(probing.batch[late + 1]),
    }


def toy_profiles() -> list[dict[str, float | str]]:
    """L08: largest batch, inputs/s and gain over batch 1 of three toy models at 20 ms."""
    rows: list[dict[str, float | str]] = []
    for profile in TOYS:
        limit = profile.max_batch(SLO)
        qps = profile.throughput(limit)
        rows.append({"name": profile.name, "max_batch": limit, "qps": qps, "gain": qps / profile.throughput(1)})
    return rows


STRATEGIES: dict[str, Callable[[], Controller]] = {
    "aimd": lambda: AIMD(SLO),
    "headroom": lambda: AIMD(HEADROOM),
    "quantile": lambda: QuantileRegression(SLO),
    "fixed": lambda: FixedBatch(MEDIUM.max_batch(SLO)),
}


def strategy_run(name: str, seed: int, n_batches: int = 800) -> ControllerRun:
    """One of `STRATEGIES` on the medium model with 5 % noise and the slow phase; equal seeds mean equal
    noise."""
    return simulate_controller(MEDIUM, STRATEGIES[name](), n_batches, SlowPhase(*SLOW), rng=np.random.default_rng(seed))


def controllers(seeds: tuple[int, ...] = SEEDS) -> dict[str, Interval]:
    """L09 and L10: shares of late batches and throughputs (inputs/s of busy time), with 95 % intervals over
    seeds.

    Keys: "<strategy> steady", "<strategy> slow", both also with "inputs" (the share of inputs in late batches),
    "<strategy> qps" for each of `STRATEGIES`, and "headroom cost", the relative loss of steady throughput that
    head-room costs AIMD, seed by seed.
    """
    runs = {name: [strategy_run(name, seed) for seed in seeds] for name in STRATEGIES}
    result: dict[str, Interval] = {}
    for name, of_name in runs.items():
        result[f"{name} steady"] = t_interval([run.late_share(SLO, *STEADY) for run in of_name])
        result[f"{name} slow"] = t_interval([run.late_share(SLO, *SLOW) for run in of_name])
        result[f"{name} steady inputs"] = t_interval([run.late_input_share(SLO, *STEADY) for run in of_name])
        result[f"{name} slow inputs"] = t_interval([run.late_input_share(SLO, *SLOW) for run in of_name])
        result[f"{name} qps"] = t_interval([run.throughput(*STEADY) for run in of_name])
    lost = [
        1 - careful.throughput(*STEADY) / bold.throughput(*STEADY)
        for careful, bold in zip(runs["headroom"], runs["aimd"], strict=True)
    ]
    result["headroom cost"] = t_interval(lost)
    return result


CLEAN = LatencyProfile(0.003, 0.0005, name="3 + 0.5 B ms")  # the medium model without noise
CAPACITY = CLEAN.throughput(CLEAN.max_batch(SLO))  # of largest batches back to back, inputs/s


def request_run(rate: float, cap: int, seed: int | None, n: int = 20_000) -> DelayedRun:
    """One open-loop run of the noiseless medium model that takes whoever waits, up to `cap`: no batch of 34 is late.

    Without a seed the arrivals come evenly spaced.
    """
    if seed is None:
        return serve_queue(CLEAN, np.arange(1, n + 1) / rate, 0.0, cap, rng=np.random.default_rng(0))
    return simulate_delayed(CLEAN, rate, n, 0.0, cap, rng=np.random.default_rng(seed))


def late_requests(rate: float, cap: int, seeds: Sequence[int] = range(5), n: int = 20_000) -> Interval:
    """Share of *requests* that take longer than the SLO from arrival to the end of their batch."""
    return t_interval([request_run(rate, cap, seed, n).late_share(SLO) for seed in seeds])


def safe_rate(cap: int, share: float = 0.01) -> float:
    """Largest rate (requests/s, to about 1 %) at which at most `share` of the requests are late."""
    low, high = 0.3 * CAPACITY, CAPACITY
    while high - low > 0.01 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if late_requests(middle, cap).mean <= share else (low, middle)
    return low


def delayed_run(
    profile: LatencyProfile, max_wait: float, seed: int, n: int = 8000, load: float = 0.8, timer: str = "free"
) -> DelayedRun:
    """One open-loop run at `load` of the unbatched capacity; equal seeds mean equal arrivals whatever the
    wait."""
    rate = unbatched_rate(profile, load)
    return simulate_delayed(profile, rate, n, max_wait, max_batch=100, rng=np.random.default_rng(seed), timer=timer)


def delayed_batching(seeds: tuple[int, ...] = SEEDS) -> dict[str, Interval]:
    """L11: busy share, mean batch and mean latency (s) of both models without waiting and with 2 ms.

    Keys: "<high|low> <0|2> <busy|batch|latency>"; with "oldest" for 0 or 2, 2 ms counted from the oldest's arrival.
    """
    result: dict[str, Interval] = {}
    for name, profile in (("high", HIGH_FIXED), ("low", LOW_FIXED)):
        for wait, seconds, timer in ((0, 0.0, "free"), (2, 0.002, "free"), ("oldest", 0.002, "oldest")):
            runs = [delayed_run(profile, seconds, seed, timer=timer) for seed in seeds]
            result[f"{name} {wait} busy"] = t_interval([run.busy for run in runs])
            result[f"{name} {wait} batch"] = t_interval([run.mean_batch for run in runs])
            result[f"{name} {wait} latency"] = t_interval([run.mean_latency for run in runs])
    return result


def decode_limits() -> dict[int, int]:
    """L13: largest decode batch of Llama-3-8B on one H100 within 20 ms, by context length in tokens."""
    return {context: decode_limit("llama3-8b", "h100", context, SLO) for context in (512, 1024, 2048, 4096, 8192)}
