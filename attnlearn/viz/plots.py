"""Weights as a heat map."""

import numpy as np

from attnlearn.viz.colours import WEIGHTS

NUMBERS = 10  # up to this many rows and columns the value fits into its cell


def heatmap(weights, queries=None, keys=None, title=None):
    """Draw attention weights [T, S] as a matplotlib Figure, queries down and keys across.

    ``queries`` and ``keys`` are labels in place of positions. The scale starts at 0; NaN is marked.
    Raises ``ValueError`` for another number of axes or labels.
    """
    import matplotlib.pyplot as plt

    weights = as_numpy(weights)
    for name, labels, n in zip(("queries", "keys"), (queries, keys), weights.shape, strict=True):
        if labels is not None and len(labels) != n:
            raise ValueError(f"{name}: got {len(labels)} labels for {n}")
    T, S = weights.shape
    figure, axes = plt.subplots(
        figsize=(1.6 + min(4.4, 0.5 * S), 1.1 + min(4.4, 0.5 * T)), layout="constrained"
    )
    colours = plt.get_cmap(WEIGHTS).with_extremes(bad="#d55e00")
    image = axes.imshow(weights, cmap=colours, vmin=0, aspect="auto")
    axes.set(xlabel="key j", ylabel="query i", title=title or "")
    axes.xaxis.set_label_position("top")
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    _label(axes.set_xticks, keys, rotation=45 if keys is not None else 0)
    _label(axes.set_yticks, queries)
    if max(T, S) <= NUMBERS:
        _numbers(axes, weights, image)
    figure.colorbar(image, label="weight")
    plt.close(figure)  # shown once, by whoever holds it, and not again at the end of the cell
    return figure


def as_numpy(weights):
    if hasattr(weights, "detach"):  # a tensor may hold gradients or live on a GPU
        weights = weights.detach().cpu().float().numpy()
    weights = np.asarray(weights, dtype=float)
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(f"weights: got shape {weights.shape}, needs [T, S] of one head")
    return weights


def _label(set_ticks, labels, **options):
    if labels is not None:
        set_ticks(range(len(labels)), [str(label) for label in labels], **options)


def _numbers(axes, weights, image):
    for (t, j), weight in np.ndenumerate(weights):
        dark = np.isnan(weight) or image.norm(weight) > 0.55
        ink = "white" if dark else "#1a1a1a"
        axes.text(j, t, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=8)
