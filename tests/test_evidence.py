"""Evidence: read from the repository or from a wheel, and copied into the package by release."""

import json

import pytest

from attnlearn import evidence as module
from attnlearn.evidence import evidence
from attnlearn.grading import release, stored


@pytest.fixture
def root(tmp_path):
    (tmp_path / "attnlearn").mkdir()
    (tmp_path / "solutions").mkdir()
    folder = tmp_path / "book" / "evidence"
    folder.mkdir(parents=True)
    (folder / "heads.json").write_text('{"seeds": [0, 1]}\n')
    return tmp_path


@pytest.mark.parametrize("folder", ["book/evidence", "attnlearn/stored"])
def test_evidence_is_found_in_a_repository_and_in_a_wheel(root, monkeypatch, folder):
    release.release(root)
    monkeypatch.setattr(module, "FOLDERS", (root / "nowhere", root / folder))
    assert evidence("heads") == {"seeds": [0, 1]}


def test_an_unknown_name_raises_with_the_known_ones(root, monkeypatch):
    monkeypatch.setattr(module, "FOLDERS", (root / "book" / "evidence",))
    with pytest.raises(FileNotFoundError, match="no evidence 'tails'; there is heads"):
        evidence("tails")


def test_release_copies_and_check_compares(root):
    assert stored.check(root) == [f"{root / 'attnlearn/stored/heads.json'}: missing"]
    release.release(root)
    assert stored.check(root) == []
    (root / "book/evidence/heads.json").write_text(json.dumps({"seeds": [2]}))
    assert "stale" in stored.check(root)[0]
    (root / "book/evidence/heads.json").unlink()
    assert "no such file in book/evidence" in stored.check(root)[0]


def test_a_teachers_folder_has_no_copies(tmp_path):
    assert list(stored.copies(tmp_path)) == []
