"""The zip that Gradescope takes as an autograder: this package, an exercise, and its seed."""

import io
import json
import re
import zipfile
from importlib import metadata

from ..kernel import PACKAGE_PARENT

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
RUN = """\
#!/usr/bin/env bash
# Runs for each submission, as root. Answers run as another user, who can't read the exercise.
base="${AUTOGRADER:-/autograder}"
cd "$base"
PYTHONPATH="$base/package" exec "${PYTHON:-$base/venv/bin/python}" \\
    -m attnlearn.grading.exports.autograder "$base"
"""
NEEDED = ("nbval", "nbclient", "nbformat", "ipykernel", "pytest", "tqdm", "numpy")
OPTIONAL = ("torch", "matplotlib")  # where the exercise imports them


def archive(script, seed, weak):
    """The bytes of the zip."""
    text = script.read_text("utf-8")
    settings = {"stem": script.stem, "weak": weak}
    files = {
        "setup.sh": SETUP,
        "run_autograder": RUN,
        "requirements.txt": requirements(text),
        f"{script.stem}.py": text,
        "seed.txt": f"{seed}\n",
        "settings.json": json.dumps(settings) + "\n",
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as zip:
        for name, content in files.items():
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = (0o755 if "." not in name or name == "setup.sh" else 0o644) << 16
            zip.writestr(about, content)
        for path in sorted((PACKAGE_PARENT / "attnlearn").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                zip.write(path, path.relative_to(PACKAGE_PARENT).as_posix())
    return data.getvalue()


def requirements(script):
    """The grader's packages and all that these need, in the versions that are installed here."""
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", script, re.M))
    waiting, found = [*NEEDED, *(name for name in OPTIONAL if name in imported)], {}
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        try:
            about = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another platform
            continue
        if key not in found:
            found[key] = f"{about.metadata['Name']}=={about.version.partition('+')[0]}"
            waiting += filter(None, map(_always, about.requires or []))
    return "".join(f"{line}\n" for _, line in sorted(found.items()))


def _always(requirement):
    """The name in a requirement that is not one of an extra."""
    name, _, condition = requirement.partition(";")
    return None if "extra" in condition else re.match(r"[\w.-]+", name)[0]
