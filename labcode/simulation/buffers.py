"""An output buffer between an engine that writes and a client that reads."""

from __future__ import annotations

from labcode.checks import integer, non_negative, positive

#: Bytes: rounding in sums of reads may not look like a byte too many.
SLACK = 1e-6


def fill_time(written: float, read: float, capacity: float) -> float:
    """Return the seconds until an empty buffer is full, as a fluid: capacity/(written - read), or infinity.

    Parameters
    ----------
    written, read : float
        Bytes/s in and out.
    capacity : float
        Bytes.
    """
    written, read = non_negative("written", written), non_negative("read", read)
    capacity = positive("capacity", capacity)
    return capacity / (written - read) if written > read else float("inf")


class OutputBuffer:
    """Bytes that were generated and that the client has not read.  Events are numbered, and none is ever dropped.

    The client reads at a steady pace whenever there is something; an event is acknowledged with its last byte.

    Parameters
    ----------
    capacity : float
        Bytes; infinity is no limit.
    read : float
        Bytes/s that the client reads; 0 is a client that has stopped.
    event : int
        Bytes of an event, one token each.

    Attributes
    ----------
    now : float
        Time up to which reading is accounted for, s.
    level, peak : float
        Bytes in the buffer, and the most there ever were.
    written : int
        Events put in.
    """

    def __init__(self, capacity: float, read: float, event: int = 256) -> None:
        self.event, self.read = integer("event", event), non_negative("read", read)
        if not capacity >= event:
            raise ValueError(f"capacity = {capacity!r}: must hold an event of {event} bytes")
        self.capacity = float(capacity)
        self.now = self.level = self.peak = 0.0
        self.written = 0

    def advance(self, now: float) -> None:
        """Let the client read until `now` (s)."""
        if now > self.now:
            self.level = max(0.0, self.level - self.read * (now - self.now))
            self.now = now

    @property
    def room(self) -> bool:
        """Whether another event fits."""
        return self.level + self.event <= self.capacity + SLACK

    def put(self, now: float) -> None:
        """Write an event at `now` (s).

        Raises
        ------
        ValueError
            If it does not fit: whoever writes has to ask for room first.
        """
        self.advance(now)
        if not self.room:
            raise ValueError(f"now = {now!r}: {self.level:.0f} of {self.capacity:.0f} bytes are taken, no event fits")
        self.level += self.event
        self.peak = max(self.peak, self.level)
        self.written += 1

    @property
    def acknowledged(self) -> int:
        """Number of the last event that the client has read whole; 0 before the first."""
        return self.written - int(-(-(self.level - SLACK) // self.event))

    def falls_to(self, level: float) -> float:
        """Return when the level will be down to `level` bytes if nothing is written, in s; infinity if never."""
        if self.level <= level + SLACK:
            return self.now
        return self.now + (self.level - level) / self.read if self.read else float("inf")


def filling(written: float, read: float, capacity: float, event: int = 256, until: float = 3600.0) -> tuple[float, int]:
    """Write an event every event/written seconds until the buffer is full.

    Returns
    -------
    time : float
        When the level reached the capacity or an event found no room, s; infinity if not within `until`.
    events : int
        Events written by then.
    """
    buffer, gap = OutputBuffer(capacity, read, event), event / positive("written", written)
    for k in range(1, int(until / gap) + 1):
        buffer.advance(k * gap)
        if not buffer.room:
            return k * gap, buffer.written
        buffer.put(k * gap)
        if buffer.level >= capacity - SLACK:
            return k * gap, buffer.written
    return float("inf"), buffer.written
