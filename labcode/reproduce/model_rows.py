"""Rows that the real mini model answers: lecture sections 1.1, 1.2, 3.2, 4.2 and exercise 4."""

from __future__ import annotations
