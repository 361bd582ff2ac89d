"""What is handed in is read with suspicion, and everybody is found under their own name."""

import io
import os
import stat
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from attnlearn.__main__ import main
from attnlearn.grading.exports import grades
from attnlearn.grading.handed_in import copies, inbox, platforms, students, zips

LIMIT = 100_000
STEM = "03_masks"


def zipped(files, **options):
    """The bytes of a zip of {name: bytes, or (ZipInfo, bytes)}."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()


def handed_in(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def found(*paths):
    """{student's name and id: places of the papers, the latest first}."""
    grouped = students.by_student(inbox.papers(paths, LIMIT), STEM)
    return {(who.name, who.id): [str(p.place) for p in papers] for who, papers in grouped.items()}


def only(*paths):
    (paper,) = inbox.papers(paths, LIMIT)
    return paper


NAMES = {
    "smith.ipynb": ("smith", ""),
    "Ana Nuñez.ipynb": ("Ana Nuñez", ""),
    "山田太郎.ipynb": ("山田太郎", ""),
    "smith (1).ipynb": ("smith", ""),
    "smith-Copy1.ipynb": ("smith", ""),
    "student-01.ipynb": ("student-01", ""),
    "03_masks_smith.ipynb": ("smith", ""),
    "smith 03_Masks.ipynb": ("smith", ""),
    "smith.ipynb.txt": ("smith", ""),
    "SMITH.IPYNB": ("SMITH", ""),
    '=1+1,"x".ipynb': ('=1+1,"x"', ""),
    "doejane_101_7001_03_masks.ipynb": ("doejane", "101"),
    "doejane_LATE_101_7002_03_masks-1.ipynb": ("doejane", "101"),
    "Jane Doe_101_assignsubmission_file_03_masks.ipynb": ("Jane Doe", "101"),
    "Jane Doe_101_assignsubmission_file_/03_masks.ipynb": ("Jane Doe", "101"),
    "jane/03_masks.ipynb": ("jane", ""),
    "jane/masks.ipynb": ("jane", ""),
    "jane/03_masks/03_masks.ipynb": ("jane", ""),
    "jane/Copy of 03_masks (1).ipynb": ("jane", ""),
    "smith - Copy (2).ipynb": ("smith", ""),
    "Copy of smith.ipynb": ("smith", ""),
    "smith.ipynb.ipynb": ("smith", ""),
    "smith.ipynb.download": ("smith", ""),
    "smith.ipynb (1)": ("smith", ""),
    "team_1_03_masks.ipynb": ("team_1", ""),
    "2026_11_30_doe.ipynb": ("2026_11_30_doe", ""),
    "roe/exercises/03_masks.ipynb": ("roe", ""),
    "anon_b4Xk9_7001_03_masks.ipynb": ("anon_b4Xk9", ""),
    "LATE_anon_b4Xk9_7001_x.ipynb": ("anon_b4Xk9", ""),
    "Masks_jdoe_attempt_2026-11-03-10-30-00_03_masks.ipynb": ("jdoe", ""),
    "Lab 3_jan@x.nl_poging_2026-11-03-10-30-00.txt": ("jan@x.nl", ""),
    "101-7 - Wes-ley Ng - Nov 3, 2026 1030 AM - hw - 2.ipynb": ("Wes-ley Ng", "101"),
    "101-7 - Jane Doe - Nov 3, 2026 1030 AM/03_masks.ipynb": ("Jane Doe", "101"),
    "Masks/Doe, Jane(jdoe)/Submission attachment(s)/hw.ipynb": ("Doe, Jane", "jdoe"),
    "Doe, Jane(jdoe)_Submission attachment(s)_hw.ipynb": ("Doe, Jane", "jdoe"),
    # the students' own names for their files may be like those of another's
    "Jane Doe_101_assignsubmission_file_Kim_102_assignsubmission_file_x.ipynb": ("Jane Doe", "101"),
    "M_jdoe_attempt_2026-11-03-10-30-00_kim_attempt_2027-11-03-10-30-00_x.ipynb": ("jdoe", ""),
    "Doe(jdoe)_Submission attachment(s)_(kim)_Submission attachment(s)_x.ipynb": ("Doe", "jdoe"),
    "smith - Kopie (2).ipynb": ("smith", ""),
    "Copia de smith.ipynb": ("smith", ""),
    "smith - co\u0301pia.ipynb": ("smith", ""),
    "山田 - コピー.ipynb": ("山田", ""),
    "李雷的副本.ipynb": ("李雷", ""),
    "smith (copie).ipynb": ("smith", ""),
    "jane/Kopie von 03_masks.ipynb": ("jane", ""),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_or_its_folder_tells_the_student(tmp_path, name):
    handed_in(tmp_path / "class", {name: b"{}"})
    assert list(found(tmp_path / "class")) == [NAMES[name]]


def test_gradescope_names_come_from_its_list(tmp_path):
    metadata = (
        "submission_7001:\n  :submitters:\n  - :name: Jane Doe\n    :sid: '101'\n"
        "submission_7002:\n  :submitters:\n  - :name: Jan Kim\n  - :name: Ann Lee\n"
    )
    folder = handed_in(
        tmp_path / "assignment_9_export",
        {
            "submission_metadata.yml": metadata.encode(),
            "submission_7001/03_masks.ipynb": b"{}",
            "submission_7002/work.ipynb": b"{}",
            "submission_7003/work.ipynb": b"{}",
        },
    )
    assert list(found(folder)) == [
        ("Jane Doe", "7001"),
        ("Jan Kim and Ann Lee", "7002"),
        ("submission_7003", "7003"),
    ]


def test_lists_that_somebody_has_handed_in_are_not_all_read():
    read = []

    def paper(place):
        return inbox.Paper(PurePosixPath(place), 0.0, lambda: read.append(place) or b"")

    lists = [paper(f"class/jane/{n}/submission_metadata.yml") for n in range(99)]
    platforms.Names([*lists, paper("class/kim.ipynb")], STEM)
    assert read == []
    own = [paper("class/submission_1/x.ipynb"), paper("class/submission_metadata.yml")]
    platforms.Names([*lists, *own], STEM)
    assert read[0] == "class/submission_metadata.yml"
    assert len(read) == platforms.MOST_LISTS


def test_a_zip_is_read_like_a_folder_and_so_is_a_zip_in_it(tmp_path):
    inner = zipped({"03_masks.ipynb": b"{}"})
    outer = zipped(
        {
            "doejane_101_7001_hw.zip": inner,
            "kimjan_102_7002_03_masks.ipynb": b"{}",
            "__MACOSX/._kimjan_102_7002_03_masks.ipynb": b"\0",
            ".DS_Store": b"\0",
        }
    )
    path = tmp_path / "submissions.zip"
    path.write_bytes(outer)
    assert list(found(path)) == [("doejane", "101"), ("kimjan", "102")]


def test_the_latest_of_several_files_comes_first(tmp_path):
    folder = handed_in(
        tmp_path / "class",
        {
            "doejane_101_7003_03_masks.ipynb": b"",
            "doejane_101_7010_03_masks-1.ipynb": b"",
            "smith.ipynb": b"",
            "smith (2).ipynb": b"",
            "kim.ipynb": b"",
            "kim (1).ipynb": b"",
            "Masks_jroe_attempt_2026-11-05-10-30-00_a.ipynb": b"",
            "Masks_jroe_attempt_2026-11-04-10-30-00_z.ipynb": b"",
            "102-7 - Max Poe - Nov 3, 2026 1130 AM - a.ipynb": b"",
            "102-7 - Max Poe - Nov 3, 2026 105 PM - a.ipynb": b"",
        },
    )
    for name in os.listdir(folder):
        os.utime(folder / name, (1000, 1000))
    os.utime(folder / "kim.ipynb", (2000, 2000))
    latest = {name: places[0] for (name, _), places in found(folder).items()}
    assert latest == {
        "doejane": "class/doejane_101_7010_03_masks-1.ipynb",
        "smith": "class/smith (2).ipynb",
        "kim": "class/kim.ipynb",
        "jroe": "class/Masks_jroe_attempt_2026-11-05-10-30-00_a.ipynb",
        "Max Poe": "class/102-7 - Max Poe - Nov 3, 2026 105 PM - a.ipynb",
    }


def test_a_name_of_many_copies_takes_no_time():
    start = time.process_time()
    assert copies.stem(f"smith{'  copy' * 26}x.ipynb").startswith("smith  copy")
    assert copies.stem(f"smith{'  copy 2' * 26} .ipynb") == "smith"
    assert time.process_time() - start < 2


def test_two_students_of_one_name_stay_two(tmp_path):
    folder = handed_in(
        tmp_path / "class",
        {
            "Jan Kim_101_assignsubmission_file_/03_masks.ipynb": b"",
            "Jan Kim_102_assignsubmission_file_/03_masks.ipynb": b"",
            "monday/lee.ipynb": b"",
            "monday/ito.ipynb": b"",
            "friday/lee.ipynb": b"",
            "friday/roe.ipynb": b"",
        },
    )
    grouped = students.by_student(inbox.papers([folder], LIMIT), STEM)
    names = sorted(who.name for who in grouped)
    assert names == ["Jan Kim", "Jan Kim", "ito", "lee", "lee", "roe"]
    keys = students.keys(grouped)
    assert len({key.casefold() for key in keys.values()}) == 6


GROUPS = {
    "of a section": (["a/03_masks_smith.ipynb", "a/03_masks_kim.ipynb"], {"smith", "kim"}),
    "with a number": (["lab_3_03_masks_doe.ipynb", "lab_3_03_masks_roe.ipynb"], None),
    "versions": (["jane/03_masks_v1.ipynb", "jane/03_masks_final2.ipynb"], {"jane"}),
    "one and a draft": (["jane/03_masks_doe.ipynb", "jane/draft.ipynb"], {"jane"}),
    "one who did not rename": (
        ["all/03_masks.ipynb", "all/Ada.ipynb", "all/Ben.ipynb"],
        {"03_masks.ipynb", "Ada", "Ben"},
    ),
    "the same, given directly": (
        ["03_masks.ipynb", "Ada.ipynb", "Ben.ipynb"],
        {"03_masks.ipynb", "Ada", "Ben"},
    ),
    "each with more of his own": (
        [f"{who}/{x}.ipynb" for who in ("jane", "kim") for x in ("03_masks", "plots", "ideas")],
        {"jane", "kim"},
    ),
    "one with notes": (["jane/03_masks.ipynb", "jane/Untitled1.ipynb", "jane/x.ipynb"], {"jane"}),
    "one and its data": (["jane/hw.ipynb", "jane/data.tar.gz"], {"jane"}),
    "archives": (["jane.7z", "kim.tar.gz", "lee.ipynb"], {"jane", "kim", "lee"}),
    "of no Canvas": (["hw_3_1_doe.ipynb", "hw_3_1_roe.ipynb"], {"hw_3_1_doe", "hw_3_1_roe"}),
    "downloaded twice": (["doe_1_2_x.ipynb", "doe_1_2_x (1).ipynb"], {"doe"}),
    "users with a _": (
        [f"M_{who}_attempt_2026-11-03-10-30-00_x.ipynb" for who in ("a_roe", "b_roe")],
        {"a_roe", "b_roe"},
    ),
    "repositories": (["a/src/x.ipynb", "b/src/x.ipynb"], {"a", "b"}),
    "sections": (
        ["late/jane/x.ipynb", "soon/kim/x.ipynb", "soon/lee/x.ipynb"],
        {"jane", "kim", "lee"},
    ),
    "without names": (
        ["03_masks.ipynb", "Copy of 03_masks.ipynb", "kim.ipynb"],
        {"03_masks.ipynb", "Copy of 03_masks.ipynb", "kim"},
    ),
}


@pytest.mark.parametrize("group", GROUPS)
def test_no_student_takes_the_place_of_another(tmp_path, group):
    files, names = GROUPS[group]
    folder = handed_in(tmp_path / "class", dict.fromkeys(files, b""))
    got = [name for name, _ in found(folder)]
    assert set(got) == names if names else len(got) == len(files)


def test_a_file_named_as_by_a_platform_is_not_put_to_another_student(tmp_path):
    files = ["bob/03_masks.ipynb", "jane/M_bob_attempt_2026-11-03-10-30-00_x.ipynb"]
    folder = handed_in(tmp_path / "class", dict.fromkeys(files, b""))
    grouped = students.by_student(inbox.papers([folder], LIMIT), STEM)
    assert [len(own) for own in grouped.values()] == [1, 1]
    assert {who.name for who in grouped} == {"bob"}


ZIPS = {
    "a folder each": (["jane.zip/- /x.ipynb", "kim.zip/work/a/x.ipynb"], {"jane", "kim"}),
    "beside a notebook": (["jane.zip/work/x.ipynb", "kim.ipynb"], {"jane", "kim"}),
    "sections": (
        ["a.zip/jane/x.ipynb", "b.zip/kim/x.ipynb", "b.zip/lee/x.ipynb"],
        {"jane", "kim", "lee"},
    ),
    "a class": (["class.zip/kim.ipynb", "class.zip/jane.7z"], {"kim", "jane"}),
    "Canvas": (["c.zip/kim_1_2_x.ipynb", "c.zip/jane_3_4_hw.7z"], {"kim", "jane"}),
    "attempts": (
        [
            "M_kim_attempt_2026-11-03-10-30-00_w.zip/w/x.ipynb",
            "M_kim_attempt_2026-11-04-10-30-00_x.ipynb",
        ],
        {"kim"},
    ),
}


@pytest.mark.parametrize("group", ZIPS)
def test_a_zip_is_of_its_student_or_of_a_class(tmp_path, group):
    files, names = ZIPS[group]
    inside = {}
    for name in files:
        outer, _, inner = name.partition(".zip/")
        inside.setdefault(f"{outer}.zip" if inner else outer, {})[inner] = b""
    packed = {name: zipped(own) if "" not in own else b"" for name, own in inside.items()}
    assert {name for name, _ in found(handed_in(tmp_path / "class", packed))} == names


def test_names_in_the_bytes_of_old_windows_stay_apart(tmp_path):
    names = [os.fsdecode(f"{name}.ipynb".encode("cp1252")) for name in ("Müller", "Mäller")]
    folder = handed_in(tmp_path / "class", dict.fromkeys(names, b""))
    assert [name for name, _ in found(folder)] == ["Mäller", "Müller"]


def test_keys_are_safe_file_names():
    names = ["a/../b", "..", "=cmd|' /C calc'!A0", "Smith", "smith", "山田 太郎", "x" * 300, ""]
    keys = students.keys([students.Student(name) for name in names])
    assert len({key.casefold() for key in keys.values()}) == len(names)
    for key in keys.values():
        assert len(key) <= 70
        assert not set(key) & set("/\\:*?\"<>|' ")
        assert not key.startswith((".", "-"))
    assert keys[students.Student("Smith")] == "Smith"


def test_nobody_takes_the_key_of_another_by_a_name():
    her = students.Student("O’Brien")
    key = students.keys([her])[her]
    his = students.Student(key)
    assert len({*students.keys([his, her]).values()}) == 2


def test_a_name_of_many_copies_is_read_at_once():
    for more in (" copy ", " copy (1)", " copy 1", " ()", " (copy 2)"):
        start = time.process_time()
        assert copies.stem(f"a{more * 24}x.ipynb") == f"a{more * 24}x"
        assert copies.number(f"a{more * 24}x") == 0
        assert time.process_time() - start < 1
    assert copies.stem("a copy  copy 2 - copy (3).ipynb") == "a"


def test_keys_are_names_for_the_file_system_there_is(monkeypatch):
    monkeypatch.setattr(students.sys, "getfilesystemencoding", lambda: "ascii")
    keys = students.keys([students.Student(name) for name in ("山田", "山", "Kim")]).values()
    assert len(set(keys)) == 3
    assert all(key.isascii() for key in keys)


def test_no_name_ends_a_run_where_its_lines_cannot_be_written(tmp_path, monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert main(["gradebook", str(tmp_path)]) == 1
    print("山", file=narrow, flush=True)
    assert narrow.buffer.getvalue() == b"\\u5c71\n"


def test_names_lose_what_no_table_and_no_terminal_should_meet():
    assert students.clean("a\x1b[31mb\u202ec\nd") == "a[31mbc d"
    assert len(students.clean("x" * 300)) == 120


CELLS = {
    "=1+1": "'=1+1",
    "+1": "'+1",
    "-1": "'-1",
    "@x": "'@x",
    "a=b": "a=b",
    2.5: 2.5,
}


@pytest.mark.parametrize("cell", CELLS)
def test_no_cell_is_a_formula(cell):
    assert grades.safe(cell) == CELLS[cell]


def test_a_file_above_the_limit_is_not_read(tmp_path):
    path = tmp_path / "big.ipynb"
    path.write_bytes(b" " * (LIMIT + 1))
    with pytest.raises(inbox.Unreadable, match=r"larger than .* clear all outputs"):
        only(path).read()
    path.write_bytes(b" " * LIMIT)
    assert len(only(path).read()) == LIMIT


def test_links_and_pipes_are_not_followed(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("{}")
    folder = tmp_path / "class"
    (folder / "real").mkdir(parents=True)
    (folder / "linked.ipynb").symlink_to(secret)
    (folder / "jane").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.ipynb")
    papers = {paper.place.name: paper for paper in inbox.papers([folder], LIMIT)}
    assert papers.keys() == {"linked.ipynb", "jane", "pipe.ipynb"}
    with pytest.raises(inbox.Unreadable, match="a symbolic link: hand in the file itself"):
        papers["linked.ipynb"].read()
    with pytest.raises(inbox.Unreadable, match="no plain file"):
        papers["pipe.ipynb"].read()


def link_in_zip():
    info = zipfile.ZipInfo("jane.ipynb")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def encrypted():
    """Its header says that a member needs a password."""
    data = bytearray(zipped({"jane.ipynb": b"{}"}))
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def packed_unusually():
    data = bytearray(zipped({"jane.ipynb": b"{}"}))
    data[8] = data[data.rindex(b"PK\x01\x02") + 10] = 9
    return bytes(data)


def corrupt():
    data = bytearray(zipped({"jane.ipynb": os.urandom(2000)}))
    data[100:1200] = bytes(1100)
    return bytes(data)


ARCHIVES = {
    "a name that climbs": (zipped({"../../jane.ipynb": b"{}"}), "leads out of it"),
    "an absolute name": (zipped({"/etc/jane.ipynb": b"{}"}), "leads out of it"),
    "a drive": (zipped({"C:\\x\\jane.ipynb": b"{}"}), "leads out of it"),
    "a link": (zipped({link_in_zip(): b"/etc/passwd"}), "a symbolic link in an archive"),
    "a bomb": (zipped({"jane.ipynb": bytes(50_000_000)}), "when unpacked: clear all outputs"),
    "a password": (encrypted(), "an encrypted archive"),
    "corrupt": (corrupt(), "damaged inside its archive"),
    "cut off": (zipped({"jane.ipynb": b"{}" * 500})[:60], "no archive, or a damaged one"),
    "no zip": (b"hello", "no archive, or a damaged one"),
    "empty": (zipped({}), "an empty archive"),
    "no notebook": (zipped({"jane.pdf": b"%PDF"}), "an archive without a notebook"),
    "of another kind": (zipped({"jane.7z": b"7z"}), "an archive, but no zip"),
    "packed unusually": (packed_unusually(), "make an ordinary zip"),
    "junk only": (zipped({"__MACOSX/._jane.ipynb": b"{}"}), "an empty archive"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_bad_archive_says_why_and_harms_nothing(tmp_path, kind):
    data, words = ARCHIVES[kind]
    (tmp_path / "jane.zip").write_bytes(data)
    before = sorted(tmp_path.rglob("*"))
    *_, paper = inbox.papers([tmp_path / "jane.zip"], LIMIT)
    with pytest.raises(inbox.Unreadable, match=words):
        paper.read()
    assert ".." not in paper.place.parts
    assert not paper.place.is_absolute()
    assert sorted(tmp_path.rglob("*")) == before


def test_one_bad_member_leaves_the_others(tmp_path):
    (tmp_path / "c.zip").write_bytes(zipped({"../jane.ipynb": b"{}", "kim.ipynb": b"[]"}))
    papers = {paper.place.name: paper for paper in inbox.papers([tmp_path / "c.zip"], LIMIT)}
    assert papers["kim.ipynb"].read() == b"[]"


def test_a_zip_that_is_named_as_a_notebook_is_opened(tmp_path):
    folder = handed_in(tmp_path / "class", {"jane.ipynb": zipped({"03_masks.ipynb": b"{}"})})
    assert list(found(folder)) == [("jane", "")]
    assert only(folder).read() == b"{}"


def test_names_of_macos_are_utf_8_although_the_zip_does_not_say_so(tmp_path):
    data = bytearray(zipped({"Müller.ipynb": b"{}"}))
    data[7] = data[data.rindex(b"PK\x01\x02") + 9] = 0
    (tmp_path / "class.zip").write_bytes(data)
    assert only(tmp_path / "class.zip").place.name == "Müller.ipynb"


def test_an_archive_is_opened_once_for_all_its_files(tmp_path, monkeypatch):
    (tmp_path / "c.zip").write_bytes(zipped({f"{n}.ipynb": b"{}" for n in range(9)}))
    papers = list(inbox.papers([tmp_path / "c.zip"], LIMIT))
    opened = []
    monkeypatch.setattr(zips, "opened", lambda file: opened.append(1) or zipfile.ZipFile(file))
    assert {paper.read() for paper in papers} == {b"{}"}
    assert len(opened) == 1


def test_a_folder_that_is_empty_or_closed_is_not_lost(tmp_path, monkeypatch):
    folder = handed_in(tmp_path / "class", {"jane/03_masks.ipynb": b"{}", "kim.ipynb": b"{}"})
    (folder / "lee.ipynb").mkdir()
    scandir = os.scandir

    def closed(path):
        if str(path).endswith("jane"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    papers = {paper.place.name: paper for paper in inbox.papers([folder], LIMIT)}
    assert sorted(name for name, _ in found(folder)) == ["jane", "kim", "lee"]
    with pytest.raises(inbox.Unreadable, match="Permission denied: hand it in again"):
        papers["jane"].read()
    with pytest.raises(inbox.Unreadable, match="an empty folder"):
        papers["lee.ipynb"].read()


def test_a_file_that_is_gone_when_its_turn_comes_costs_nobody_else(tmp_path):
    folder = handed_in(tmp_path / "class", {"a.ipynb": b"{}", "b.ipynb": b"{}", "c.ipynb": b"{}"})
    papers = inbox.papers([folder], LIMIT)
    first = next(papers)
    (folder / "b.ipynb").unlink()
    second, third = papers
    assert (first.read(), third.read()) == (b"{}", b"{}")
    with pytest.raises(inbox.Unreadable, match="hand it in again"):
        second.read()


def test_a_disk_that_fails_while_it_is_read_costs_one_file(tmp_path, monkeypatch):
    class Failing(io.BytesIO):
        def read(self, *size):
            raise OSError(5, "Input/output error")

    paper = only(handed_in(tmp_path / "class", {"jane.ipynb": b"{}"}))
    monkeypatch.setattr(inbox, "_open", lambda path: Failing())
    with pytest.raises(inbox.Unreadable, match="Input/output error: hand it in again"):
        paper.read()


def test_a_member_without_a_name_ends_no_run(tmp_path):
    data = zipped({"~": b"{}", "kim.ipynb": b"[]"}).replace(b"~", b"\0")
    (tmp_path / "c.zip").write_bytes(data)
    papers = {paper.place.name: paper for paper in inbox.papers([tmp_path / "c.zip"], LIMIT)}
    assert papers["nameless"].read() == b"{}"
    assert papers["kim.ipynb"].read() == b"[]"


def test_too_many_members_are_refused(monkeypatch):
    monkeypatch.setattr(zips, "MOST", 3)
    with pytest.raises(zips.ZipError, match="more than 3 files"):
        zips.members(io.BytesIO(zipped({f"{n}.ipynb": b"" for n in range(4)})))


def test_the_members_of_inner_archives_count_too(tmp_path, monkeypatch):
    monkeypatch.setattr(zips, "MOST", 3)
    inner = zipped({"1.ipynb": b"", "2.ipynb": b""})
    folder = handed_in(tmp_path, {"jane.zip": zipped({"a.zip": inner, "b.zip": inner})})
    with pytest.raises(inbox.Unreadable, match="more than 3 files"):
        only(folder).read()


def test_an_archive_named_by_dots_alone_is_read(tmp_path):
    archive = zipped({"jane.ipynb": b"{}"})
    folder = handed_in(tmp_path / "class", {"..zip": archive, "...zip": archive})
    assert len({paper.place for paper in inbox.papers([folder], LIMIT)}) == 2
    assert all(
        "." not in p.place.parts and ".." not in p.place.parts
        for p in inbox.papers([folder], LIMIT)
    )


def test_two_members_of_one_name_are_two(tmp_path):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("jane.ipynb", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("jane.ipynb", b"2")
    (tmp_path / "class.zip").write_bytes(target.getvalue())
    papers = list(inbox.papers([tmp_path / "class.zip"], LIMIT))
    assert [paper.read() for paper in papers] == [b"1", b"2"]


def test_a_place_begins_with_the_given_folder(tmp_path):
    folder = handed_in(tmp_path / "class", {"jane/x.ipynb": b""})
    assert only(folder).place == PurePosixPath("class/jane/x.ipynb")
    assert only(Path(folder / "jane" / "x.ipynb")).place == PurePosixPath("jane/x.ipynb")


def test_folders_of_one_name_stay_apart(tmp_path):
    for day in ("monday", "friday"):
        handed_in(tmp_path / day / "hw", {"kim.ipynb": b"", "lee.ipynb": b""})
        handed_in(tmp_path / day / "x" / "own", {"03_masks.ipynb": b""})
    grouped = found(*tmp_path.glob("*/hw"), *tmp_path.glob("*/x/own/03_masks.ipynb"))
    assert len(grouped) == 4
    papers = list(inbox.papers([*tmp_path.glob("*/hw"), *tmp_path.glob("*/x/own/*")], LIMIT))
    assert len(students.by_student(papers, STEM)) == 6
    assert {paper.place.parts[0] for paper in papers} >= {"monday hw"}


@pytest.mark.parametrize(
    ("hers", "his"),
    [
        ("roejane_101_7001_90_demo.ipynb", "poemax_55_7002_x/roejane_101_9999_90_demo.ipynb"),
        ("roejane_101_7001_90_demo.ipynb", "poemax_55_7002_x/submission_101/90_demo.ipynb"),
        ("submission_1/90_demo.ipynb", "submission_2/x/submission_metadata.yml"),
    ],
)
def test_nobody_hands_in_for_somebody_else(hers, his):
    says = b"submission_1:\n  :submitters:\n  - :name: Max\n"
    papers = [
        inbox.Paper(PurePosixPath("class", path), at, lambda: says)
        for at, path in enumerate((hers, his))
    ]
    found = students.by_student(papers, "90_demo")
    assert papers[:1] in found.values()
    assert not any(who.name == "Max" for who in found)


@pytest.mark.parametrize(
    "file", ["bob_102_assignsubmission_file_x", "Bob(102)_Submission attachment(s)_x"]
)
def test_a_name_within_that_of_canvas_tells_nothing(tmp_path, file):
    theirs = {f"doe_101_7001_{file}.ipynb": b"", "bob_102_7002_x.ipynb": b""}
    assert {*found(handed_in(tmp_path / "class", theirs))} == {("doe", "101"), ("bob", "102")}
