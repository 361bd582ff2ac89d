"""Names that systems and browsers give to copies: the name without what they add, and a number."""

import re
import unicodedata

from .inbox import ARCHIVE, NOTEBOOK, OTHERS

WORD = "(?:copy|copie|copia|cópia|kopie|kopia|kopi|копия|コピー|副本|복사본)"
# One way only to read a space: with two, a name of many copies would take years.
AFTER = re.compile(
    rf"([ _-]*\({WORD}? ?(\d*)\)"
    rf"|(?:[ -]+{WORD}|のコピー|的副本|의 사본)(?: ?(\d+))?)+ ?$",
    re.I,
)
BEFORE = re.compile(rf"^({WORD} (of|von|van|de|di|af|av) )+", re.I)  # Colab, Google Drive


def stem(name):
    """The name of a file without its endings, that of the original where it is a copy."""
    name = unicodedata.normalize("NFC", name)
    for ending in (NOTEBOOK, ARCHIVE, OTHERS, NOTEBOOK, OTHERS):  # x.ipynb.zip, x.tar.gz
        name = ending.sub("", name)
    return BEFORE.sub("", AFTER.sub("", name))


def number(name):
    """Which copy it is, by a file's name without its ending: 0 for the original."""
    copy = AFTER.search(unicodedata.normalize("NFC", name))
    return next((int(n) for n in (copy.groups()[1:] if copy else ()) if n), 0)
