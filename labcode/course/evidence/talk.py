"""Six questions for a model that can talk, served together: run here if it is installed, else as it was recorded."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

from labcode.checks import integer
from labcode.model import generate, generate_continuously, smollm

QUESTIONS = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "Write one sentence about a cat.",
    "Say hello in German.",
    "What do bees make?",
    "Which planet is the largest?",
)
ARRIVALS = (0, 0, 1, 2, 3, 6)  # iterations: those of the six requests of chapter 7
PLACES, MOST = 3, 16


def ask(count: int = len(QUESTIONS)) -> pd.DataFrame:
    """Ask SmolLM2 the first `count` questions together, and each of them alone.

    Returns
    -------
    DataFrame
        A row a question: question, answer, tokens, and whether the answer alone has the same tokens.

    Raises
    ------
    ImportError
        If the model is not installed.
    """
    lm = smollm.load()
    prompts = [lm.chat(question) for question in QUESTIONS[:count]]
    together = generate_continuously(lm.model, prompts, MOST, PLACES, list(ARRIVALS[:count]), stop=lm.stop)
    alone = [generate(lm.model, prompt, MOST, stop=lm.stop) for prompt in prompts]
    return pd.DataFrame(
        {
            "question": QUESTIONS[:count],
            "answer": [lm.tokenizer.decode(tokens) for tokens in together],
            "tokens": [len(tokens) for tokens in together],
            "as_alone": [ours == theirs for ours, theirs in zip(together, alone, strict=True)],
        }
    )


def recorded() -> pd.DataFrame:
    """Return what `ask` gave where the model was installed."""
    with (files("labcode.course.evidence") / "data" / "smollm2_answers.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def answers(count: int = len(QUESTIONS)) -> tuple[pd.DataFrame, str]:
    """Return the first `count` answers, and where they come from: this machine, or the recording."""
    count = integer("count", count, at_least=1)
    if smollm.available():
        return ask(count), "run here"
    return recorded().head(count), f"recorded. {smollm.HOW}"
