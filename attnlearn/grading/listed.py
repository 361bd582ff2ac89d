"""Many names in one line."""

FEW = 10


def some(names):
    """The first of them, and how many more there are."""
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{', '.join(names[:FEW])}{more}"
