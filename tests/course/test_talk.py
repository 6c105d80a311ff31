"""The recorded answers of the talking model stand in for it, and are its answers."""

import pandas as pd
import pytest

from labcode.course.evidence import talk
from labcode.model import smollm


def test_without_the_model_the_recording_is_shown_and_called_one(monkeypatch):
    monkeypatch.setattr(smollm, "available", lambda: False)
    table, origin = talk.answers()
    assert tuple(table["question"]) == talk.QUESTIONS and table["as_alone"].all()
    assert (table["tokens"] <= talk.MOST).all() and table["answer"].str.len().min() > 10
    assert origin.startswith("recorded") and "pip install" in origin
    assert talk.answers(1)[0]["answer"].tolist() == ["The capital of France is Paris."]
    with pytest.raises(ValueError, match="count = 0"):
        talk.answers(0)


@pytest.mark.skipif(not smollm.available(), reason=smollm.HOW)
@pytest.mark.slow
def test_the_recording_is_what_the_model_says():
    pd.testing.assert_frame_equal(talk.ask(3), talk.recorded().head(3))
