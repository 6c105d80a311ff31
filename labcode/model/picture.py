"""A picture of a step's queries and keys, ragged and padded."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle as Box

from labcode.cost.hardware import SeqWork
from labcode.model.padding import Rectangle


def block_picture(works: Sequence[SeqWork]) -> Figure:
    """Draw the query-key blocks of a step side by side: each in its own shape, and all filled up to the largest.

    Wanted pairs are filled, what a rectangular batch computes besides is dotted.

    Parameters
    ----------
    works : sequence of SeqWork
        At least one.
    """
    box = Rectangle.of(works)
    own = [(work.kv_positions, work.new) for work in works]
    padded = [(box.context, box.tokens // len(works))] * len(works)
    widths = [sum(width for width, _ in shapes) for shapes in (own, padded)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7), gridspec_kw={"width_ratios": widths})
    _blocks(left, works, own, f"ragged: {box.useful_tokens} rows", None)
    _blocks(right, works, padded, f"padded: {box.tokens} rows", "....")
    figure.tight_layout()
    return figure


def _blocks(
    ax: Axes, works: Sequence[SeqWork], shapes: Sequence[tuple[int, int]], title: str, hatch: str | None
) -> None:
    """Draw one block a sequence along the diagonal."""
    left = top = 0
    for number, (work, (width, height)) in enumerate(zip(works, shapes, strict=True)):
        ax.add_patch(Box((left, top), width, height, fill=False, edgecolor="#444444", hatch=hatch, lw=0.9))
        for query in range(work.new):
            ax.add_patch(Box((left, top + query), work.past + query + 1, 1, color="#0072b2", lw=0))
        ax.annotate(f"r{number}", (left + width + 3, top + height / 2), va="center", fontsize=8)
        left, top = left + width, top + height
    ax.set(xlim=(0, left + 26), ylim=(top + 1, -1), title=title, xlabel="keys", ylabel="queries")
    ax.spines[["top", "right"]].set_visible(False)
