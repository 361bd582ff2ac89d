"""The text to learn from: the help pages that come with every Python, as bytes.

``pydoc_data.topics`` is part of Python and under its licence, the PSF License. It differs from one
version of Python to the next, so its size and its hash are stored with what was measured on it.
"""

from __future__ import annotations

import hashlib
import platform
import re
from pydoc_data.topics import topics

import torch
from torch import Tensor

HELD_OUT, VALIDATION = slice(0, None, 10), slice(5, None, 10)  # of the topics in order of name


def parts() -> dict[str, bytes]:
    """The training, validation and held-out text, with no paragraph in two of them, or twice.

    Topics quote one another at length. A paragraph goes to the held-out text first, then to the
    validation text, and only what is left is for training; spaces and line ends are ignored.
    """
    names, seen, found = sorted(topics), set(), {}
    held_out, validation = names[HELD_OUT], names[VALIDATION]
    train = [name for name in names if name not in (*held_out, *validation)]
    for part, chosen in (("held_out", held_out), ("validation", validation), ("train", train)):
        fresh = []
        for paragraph in re.split(r"\n\s*\n", "\n\n".join(topics[name] for name in chosen)):
            words = " ".join(paragraph.split())
            if words and words not in seen:
                seen.add(words)
                fresh.append(paragraph)
        found[part] = "\n\n".join(fresh).encode()
    return found


def about() -> dict:
    """Which text it was: hash and size of the whole, and of each part."""
    whole = "\n\n".join(topics[name] for name in sorted(topics)).encode()
    return {
        "source": "pydoc_data.topics",
        "licence": "PSF License",
        "python": platform.python_version(),
        "sha256": hashlib.sha256(whole).hexdigest(),
        "bytes": len(whole),
        "topics": len(topics),
        "held_out_topics": sorted(topics)[HELD_OUT],
        **{f"{part}_bytes": len(text) for part, text in parts().items()},
    }


def tokens(text: bytes) -> Tensor:
    """Bytes as whole numbers [len(text)]."""
    return torch.tensor(list(text))


def windows(text: Tensor, length: int, stride: int) -> Tensor:
    """Overlapping stretches [n, length], the last of them ending with the text."""
    starts = [*range(0, len(text) - length, stride), len(text) - length]
    return torch.stack([text[start : start + length] for start in starts])


def sample(text: Tensor, batch: int, length: int, generator: torch.Generator) -> Tensor:
    """Stretches [batch, length] that start anywhere."""
    starts = torch.randint(len(text) - length + 1, (batch, 1), generator=generator)
    return text[starts + torch.arange(length)]
