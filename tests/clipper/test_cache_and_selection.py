"""Prediction cache (CLOCK), Exp3, Exp4, and an ensemble that does not wait."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.clipper import Exp3, Exp4, PredictionCache, ensemble_answer


def test_clock_gives_a_second_chance_by_hand():
    cache = PredictionCache(3)
    for key in "abc":
        cache.put(key, key.upper())
    assert cache.get("a") == "A"  # a has its bit set
    assert cache.put("d", "D") == "b"  # the hand spares a, clears its bit, and takes b
    assert cache.put("e", "E") == "c"
    assert cache.put("f", "F") == "a"  # its chance is used up
    assert cache.get("a") is None
    assert (cache.hits, cache.misses, len(cache)) == (1, 1, 3)


class NaiveClock:
    """The same algorithm over a plain list of [key, value, bit]."""

    def __init__(self, capacity):
        self.capacity, self.ring, self.hand = capacity, [], 0

    def get(self, key):
        for entry in self.ring:
            if entry[0] == key:
                entry[2] = True
                return entry[1]
        return None

    def put(self, key, value):
        for entry in self.ring:
            if entry[0] == key:
                entry[1] = value
                return
        if len(self.ring) < self.capacity:
            self.ring.append([key, value, False])
            return
        while self.ring[self.hand][2]:
            self.ring[self.hand][2] = False
            self.hand = (self.hand + 1) % self.capacity
        self.ring[self.hand] = [key, value, False]
        self.hand = (self.hand + 1) % self.capacity


@given(st.integers(1, 6), st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=80))
def test_cache_against_a_naive_clock(capacity, operations):
    ours, naive = PredictionCache(capacity), NaiveClock(capacity)
    for step, (store, key) in enumerate(operations):
        if store:
            ours.put(key, step)
            naive.put(key, step)
        else:
            assert ours.get(key) == naive.get(key)
        assert len(ours) <= capacity
    assert {key for key in range(10) if key in ours} == {entry[0] for entry in naive.ring}


def test_clock_keeps_popular_keys():
    rng = np.random.default_rng(0)
    asked = np.minimum(rng.zipf(1.3, 20_000), 5000)
    cache = PredictionCache(100)
    for key in asked.tolist():
        if cache.get(key) is None:
            cache.put(key, key)
    assert cache.hit_rate > 0.6
    assert sum(key in cache for key in range(1, 11)) >= 9


def test_an_unused_cache_has_no_hit_rate():
    assert math.isnan(PredictionCache(1).hit_rate)


def test_exp3_finds_the_best_model():
    chosen = []
    for seed in range(10):
        rng, bandit = np.random.default_rng(seed), Exp3(3, rate=0.05)
        for _ in range(1500):
            model = bandit.choose(rng)
            bandit.feedback(model, float(rng.random() < (0.4, 0.1, 0.5)[model]))
        chosen.append(bandit.probabilities[1])
    assert np.mean(chosen) > 0.8


def test_exp3_recovers_when_its_model_fails():
    rng, bandit = np.random.default_rng(0), Exp3(2, rate=0.05)
    for step in range(6000):
        model = bandit.choose(rng)
        error = (0.1, 0.3)[model] if step < 2000 else (0.9, 0.3)[model]
        bandit.feedback(model, float(rng.random() < error))
    assert bandit.probabilities[1] > 0.9


def test_exp3_divides_by_the_probability():
    bandit = Exp3(2, rate=0.1)
    bandit.feedback(0, 1.0)
    assert bandit.log_weights.tolist() == [-0.2, 0.0]


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), max_size=50))
def test_exp4_weights_are_a_distribution_and_order_by_total_loss(rounds):
    ensemble = Exp4(3)
    for losses in rounds:
        ensemble.feedback(losses)
    assert ensemble.weights.sum() == pytest.approx(1)
    totals = np.array(rounds).reshape(-1, 3).sum(axis=0)
    assert np.argmax(ensemble.weights) in np.flatnonzero(totals <= totals.min() + 1e-9)


def test_ensemble_waits_for_all_or_for_the_deadline():
    labels, weights = ["cat", "dog", "cat"], [0.2, 0.5, 0.3]
    everyone = ensemble_answer(labels, [0.01, 0.02, 0.015], weights, deadline=0.05)
    assert (everyone.label, everyone.confidence, everyone.missing, everyone.latency) == ("cat", 0.5, 0, 0.02)
    without = ensemble_answer(labels, [0.01, 0.02, 9.0], weights, deadline=0.05)
    assert (without.label, without.confidence, without.missing, without.latency) == ("dog", 0.5, 1, 0.05)
    nobody = ensemble_answer(labels, [1, 1, 1], weights, deadline=0.05)
    assert (nobody.label, nobody.confidence, nobody.missing) == (None, 0.0, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PredictionCache(0), "capacity = 0"),
        (lambda: Exp3(0), "models = 0"),
        (lambda: Exp3(2).feedback(0, 1.5), "loss = 1.5"),
        (lambda: Exp4(2).feedback([0.1]), "1 given, 2 models"),
        (lambda: Exp4(2).feedback([0.1, float("nan")]), r"losses\[1\] = nan"),
        (lambda: ensemble_answer(["a"], [1, 2], [1], 1), "one each"),
        (lambda: ensemble_answer(["a"], [1], [0], 1), "weights"),
        (lambda: ensemble_answer(["a"], [1], [1], 0), "deadline = 0"),
    ],
)
def test_refusals_name_argument_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
