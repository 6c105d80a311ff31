"""A served model whose tokens rounding cannot change, and how to run a test inside an event loop."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from labcode.model import TINY, random_model
from labcode.model.tokenizer import byte_tokenizer
from labcode.server.backend import Backend


@pytest.fixture(scope="session")
def tiny() -> Backend:
    """The tiny model in double precision."""
    return Backend("tiny", random_model(dataclasses.replace(TINY, dtype="float64")), byte_tokenizer(TINY.vocab))
