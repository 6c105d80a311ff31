"""Computations behind the claims of chapters."""
