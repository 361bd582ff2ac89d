"""Figures of time, memory and error, as ratios: ``python -m attnlearn.bench`` prints them all."""

from .exact import SCALE, by_flash, inputs
from .measure import Figure, best, host, in_child, measured, ratios

__all__ = [
    "SCALE",
    "Figure",
    "best",
    "by_flash",
    "host",
    "in_child",
    "inputs",
    "measured",
    "ratios",
]
