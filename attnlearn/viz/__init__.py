"""Figures for the book: masks as grids, weights as heat maps, sliders with and without a kernel.

Importing this needs NumPy alone; matplotlib and ipywidgets are loaded by the call that uses them.
"""

from attnlearn.viz.colours import MASKS, WEIGHTS
from attnlearn.viz.grid import mask_svg
from attnlearn.viz.panels import show_mask
from attnlearn.viz.player import explore
from attnlearn.viz.plots import heatmap
from attnlearn.viz.tokens import token_view

__all__ = ["MASKS", "WEIGHTS", "explore", "heatmap", "mask_svg", "show_mask", "token_view"]
