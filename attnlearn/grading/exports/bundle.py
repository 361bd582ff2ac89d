"""The zip that Gradescope takes as an autograder: this package, an exercise, and its seed."""

import io
import json
import shlex
import zipfile
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .. import source
from ..environment import PACKAGE_PARENT
from . import gradescope

SETUP = """\
#!/usr/bin/env bash
# Runs once, as root, when Gradescope builds the container.
set -euo pipefail
base="${AUTOGRADER:-/autograder}"
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3 python3-venv
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \\
    || { echo "Python 3.11 or later is needed: choose the image with Ubuntu 24.04"; exit 1; }
python3 -m venv "$base/venv"
"$base/venv/bin/pip" install --quiet --requirement "$base/source/requirements.txt"
mkdir -p "$base/package"
cp -r "$base/source/attnlearn" "$base/package/"
chmod 700 "$base/source"
"""
RUN = f"""\
#!/usr/bin/env bash
# Runs for each submission, as root. Answers run as another user, who can't read these folders.
base="${{AUTOGRADER:-/autograder}}"
cd "$base" && mkdir -p results && chmod 700 source submission results
# What stands where Python does not start, or is killed:
printf '%s\\n' {shlex.quote(json.dumps(gradescope.failed("The grader did not come to its end")))} \\
    > results/results.json
PYTHONPATH="$base/package" exec "${{PYTHON:-$base/venv/bin/python}}" -P \\
    -m attnlearn.grading.exports.autograder "$base"
"""
NEEDED = ("nbval", "nbclient", "nbformat", "ipykernel", "pytest", "tqdm", "numpy")
OPTIONAL = ("torch", "matplotlib")  # where the exercise imports them
CONTAINER = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
WHEN = (1980, 1, 1, 0, 0, 0)  # the same files make the same zip


def archive(script, seed, weak):
    """The bytes of the zip."""
    text = script.read_text("utf-8")
    files = {
        "setup.sh": SETUP,
        "run_autograder": RUN,
        "requirements.txt": requirements(text),
        f"{script.stem}.py": text,
        "seed.txt": f"{seed}\n",
        "settings.json": json.dumps({"stem": script.stem, "weak": weak}) + "\n",
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zip:
        for name, content in {**files, **dict(_package())}.items():
            about = zipfile.ZipInfo(name, WHEN)
            about.external_attr = (0o755 if content[:2] in ("#!", b"#!") else 0o644) << 16
            zip.writestr(about, content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def _package():
    """{place in the zip: bytes} of our own source."""
    for path in sorted((PACKAGE_PARENT / "attnlearn").rglob("*")):
        place = path.relative_to(PACKAGE_PARENT)
        if path.is_file() and not any(
            part.startswith((".", "__pycache__")) for part in place.parts
        ):
            yield place.as_posix(), path.read_bytes()


def requirements(script):
    """The grader's packages and all that these need, in the versions that are installed here."""
    imported = source.imported(script)
    waiting, found = [*NEEDED, *(name for name in OPTIONAL if name in imported)], {}
    while waiting:
        key = canonicalize_name(waiting.pop())
        try:
            about = metadata.distribution(key)
        except metadata.PackageNotFoundError:  # only containers need it: pip chooses the version
            continue
        if key not in found:
            found[key] = f"{about.metadata['Name']}=={about.version.partition('+')[0]}"
            waiting += _needed_by(about)
    return "".join(f"{line}\n" for _, line in sorted(found.items()))


def _needed_by(about):
    for needed in map(Requirement, about.requires or ()):
        if needed.marker is None or needed.marker.evaluate(CONTAINER):
            yield needed.name
