"""`from __future__ import annotations` asks for a name."""

annotations = None
