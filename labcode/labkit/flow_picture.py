"""The state of a `Flow` at one time as SVG: for a page that stands still, for a kernel, for paper.

`book/assets/labs-flow.js` holds the same function in the browser's language; a test holds both to the same markup.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from html import escape

from labcode.labkit.flow import Flow, Lane, counts, most_tokens, sentence
from labcode.labkit.panel import Series
from labcode.labkit.theme import variable

CELLS_IN_ROW = 48
MOST_WAITING = 8  # Rows of the queue that are drawn; a number stands for the rest.
MOST_SEATS = 16  # Rows of seats that are drawn.

# A lane is 4200 units wide. Coordinates are whole numbers, so that both languages write the same text.

WIDE, LEFT, ROW, LABEL = 4200, 1000, 220, 150


def _whole(value: float) -> int:
    return math.floor(value + 0.5)


def height(lane: Lane) -> int:
    """Return the height of a lane's picture in its units."""
    rows = min(max(lane.seats, 4), MOST_SEATS)
    return 260 + rows * ROW + 120 + 170 + math.ceil(lane.blocks / CELLS_IN_ROW) * 110 + 240


def frame(lane: Lane, t: float, longest: int, colour: Callable[[str], str] = variable) -> str:
    """Return the inside of a lane's SVG at time `t` (s).

    Parameters
    ----------
    lane : Lane
    t : float
    longest : int
        Most tokens of a request in any lane: sets the width of a token.
    colour : callable
        role or ink -> colour; CSS variables by default.
    """
    ours, alt1, base, muted, ink, quiet, paper, axis = (
        colour(n) for n in ("ours", "alt1", "baseline", "muted", "ink", "quiet", "paper", "axis")
    )
    waiting, running, idle, gone = counts(lane, t)
    parts: list[str] = []

    def text(x: int, y: int, words: str, fill: str, more: str = "") -> None:
        parts.append(f'<text x="{x}" y="{y}" fill="{fill}"{more}>{escape(words)}</text>')

    def rect(x: int, y: int, w: int, h: int, fill: str, stroke: str) -> None:
        parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{fill}" stroke="{stroke}" stroke-width="10"/>'
        )

    rows, drawn_seats = min(max(lane.seats, 4), MOST_SEATS), min(lane.seats, MOST_SEATS)
    text(0, LABEL - 30, lane.name, ink, ' font-weight="700"')
    text(0, 2 * LABEL - 40, f"waiting {waiting}", quiet)
    seated = f"seats {running} of {lane.seats}" + (f", {idle} finished but taken" if idle else "")
    seated += f"; the first {drawn_seats} are drawn" if drawn_seats < lane.seats else ""
    text(LEFT, 2 * LABEL - 40, seated, quiet)
    top = 300
    queue = [i for i, life in enumerate(lane.lives) if life.arrival <= t < life.left and not life.stay(t)]
    shown = queue[: min(rows, MOST_WAITING)]
    for k, i in enumerate(shown):
        again = lane.lives[i].admitted <= t  # it has lost its seat
        rect(0, top + k * ROW, 420, ROW - 50, paper, base if again else muted)
        text(210, top + k * ROW + 130, str(i + 1), ink, ' text-anchor="middle"')
    if len(queue) > len(shown):
        text(480, top + (len(shown) - 1) * ROW + 130, f"+{len(queue) - len(shown)}", quiet)
    # A token is a notch on a bar; a dashed line draws them all. Where there is no room for notches, bars are plain.
    room = WIDE - LEFT - 340
    step = room // longest
    gap = max(1, step // 8)
    for k in range(drawn_seats):
        rect(LEFT, top + k * ROW, WIDE - LEFT - 10, ROW - 50, "none", axis)
    cells: list[tuple[int, int, bool]] = []
    sitting = [(stay[1], i, stay[0]) for i, life in enumerate(lane.lives) if (stay := life.stay(t))]
    for seat, i, since in sorted(sitting):
        life = lane.lives[i]
        y, made = top + seat * ROW, bisect_right(life.tokens, t)
        over = made == len(life.tokens)
        fresh = bool(made) and life.tokens[made - 1] > since  # since it sat down, it has got a token
        part = max((tokens for at, tokens in life.chunks if since < at <= t), default=0)
        look = base if over else ours if fresh else alt1
        if seat < drawn_seats:
            middle = y + (ROW - 50) // 2
            if part and not fresh:  # a prompt, or all of a preempted request, on its way into the cache
                rect(LEFT, y, 330, ROW - 50, paper, look)
                rect(LEFT, y, min(330, 330 * part // (life.prompt + made)), ROW - 50, look, look)
                text(LEFT + 165, y + 130, str(i + 1), ink, ' text-anchor="middle" font-weight="700"')
            else:
                rect(LEFT, y, 330, ROW - 50, look, look)
                text(LEFT + 165, y + 130, str(i + 1), paper, ' text-anchor="middle" font-weight="700"')
            for count, stroke, wide, opacity in ((len(life.tokens), muted, 60, 0.5), (made, look, 130, 1)):
                if count:
                    long = count * step if step >= 4 else room * count // longest
                    dash = f' stroke-dasharray="{step - gap} {gap}"' if step >= 4 else ""
                    parts.append(
                        f'<path d="M{LEFT + 340} {middle}h{long}" stroke="{stroke}" stroke-width="{wide}"'
                        f'{dash} opacity="{opacity}"/>'
                    )
        known = life.prompt + made
        written = known if fresh else part
        if life.held:
            written = min(life.held, written)
        full, taken = -(-written // lane.block), -(-(life.held or known) // lane.block)
        cells += [(i, seat, place < full) for place in range(taken)]
    y = top + rows * ROW + 60
    used = sum(full for _, _, full in cells)
    text(0, y + 60, f"KV cache: {used} of {lane.blocks} blocks written, {len(cells)} taken", quiet)
    y += 110
    side = WIDE // CELLS_IN_ROW
    # Neighbours in the pool are told apart by their shade. One path for all cells that look alike.
    looks = [(ours, ours), (alt1, alt1), (paper, ours), (paper, alt1), ("none", axis)]
    drawn = [""] * len(looks)
    for k in range(lane.blocks):
        x, down = side * (k % CELLS_IN_ROW), y + 110 * (k // CELLS_IN_ROW)
        _, seat, full = cells[k] if k < len(cells) else (0, 0, False)
        look_of = (0 if full else 2) + seat % 2 if k < len(cells) else 4
        drawn[look_of] += f"M{x} {down}h{side - 14}v96h-{side - 14}z"
    for (fill, stroke), path in zip(looks, drawn, strict=True):
        if path:
            parts.append(f'<path d="{path}" fill="{fill}" stroke="{stroke}" stroke-width="10"/>')
    y += 110 * math.ceil(lane.blocks / CELLS_IN_ROW) + 130
    text(0, y, f"gone {gone} of {len(lane.lives)}", quiet)
    wide = (WIDE - LEFT) // len(lane.lives)
    order = sorted((life.left, i) for i, life in enumerate(lane.lives) if life.left <= t)
    for k in range(len(lane.lives)):
        here = k < len(order)
        rect(
            LEFT + k * wide,
            y - 90,
            max(1, wide - min(20, wide // 3)),
            100,
            ours if here else "none",
            ours if here else axis,
        )
    return "".join(parts)


def svg(lane: Lane, t: float, longest: int, alt: str, colour: Callable[[str], str] = variable) -> str:
    """Return a lane at time `t` (s) as a whole SVG element."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lab-lane" viewBox="0 0 {WIDE} {height(lane)}" role="img" '
        f'font-size="118" aria-label="{escape(alt)}">{frame(lane, t, longest, colour)}</svg>'
    )


def pictures(flow: Flow, t: float, colour: Callable[[str], str] = variable) -> list[str]:
    """Return every lane of a flow at time `t` (s), each as an SVG element with its text alternative."""
    longest = most_tokens(flow.lanes)
    return [svg(lane, t, longest, sentence(lane, t), colour) for lane in flow.lanes]


#: What the colours of a flow mean, as entries of a legend.
LEGEND = (
    Series("prompt being processed", "bar", (), (), role="alt1"),
    Series("running; a notch is a token", "bar", (), ()),
    Series("finished, seat still taken", "bar", (), (), role="baseline"),
    Series("waiting, or still to come", "bar", (), (), role="muted"),
)


def legend() -> str:
    """Return the entries of a flow's legend as HTML list items."""
    fills = {s.role: variable(s.role) for s in LEGEND}
    rect = '<rect x="3" y="2" width="22" height="10" {}/>'
    box = f'<svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true">{rect}</svg>'
    drawn = {role: box.format(f'fill="{fill}" stroke="{fill}"') for role, fill in fills.items()}
    drawn["muted"] = box.format(f'fill="{variable("paper")}" stroke="{fills["muted"]}"')
    return "".join(f"<li>{drawn[s.role]}{escape(s.name)}</li>" for s in LEGEND)
