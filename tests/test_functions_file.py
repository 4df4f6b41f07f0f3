"""lfs.py is the author's own: what is not changed stays, byte for byte."""

from __future__ import annotations

import ast
import os
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from epoxy.errors import CodeError, FileChanged, ParameterError, StoreError, UnknownName
from epoxy.functions.kinds import form_of
from epoxy.functions.lfs_file import FunctionsFile

LFS = '''\
"""Mine."""
import epoxy as ep
from epoxy import labeling_function, regex as rx

money = ep.keywords("spam", "money", "größe", name="money")  # ☃ keep me
links = rx("spam", r"https?://", name="links")
near = ep.like("ham", rows=["a1", 2], radius=0.25, name="near")


@labeling_function(name="short one")
# a comment inside
def short(row):
    return "ham" if len(row.text) < 20 else None


made = [ep.keywords("spam", word) for word in ("a", "b")]
listed = [ep.keywords("ham", "song", column="body", whole_words=True, ignore_case=False)]
'''
WORDS = {"kind": "keywords", "label": "spam", "words": ["cash", "gift card"]}


def read(tmp_path, text: str | bytes = LFS) -> FunctionsFile:
    path = tmp_path / "lfs.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return FunctionsFile.read(path)


def test_functions_are_listed_with_their_lines_without_running_the_file(tmp_path):
    file = read(tmp_path, LFS + "\nraise SystemExit\n")

    found = {each.name: (each.kind, each.line, each.end) for each in file.functions}

    assert found == {
        "money": ("keywords", 5, 5),
        "links": ("regex", 6, 6),
        "near": ("like", 7, 7),
        "short one": ("python", 10, 13),
        "keywords_song": ("keywords", 17, 17),
    }


def test_a_definition_is_what_a_form_can_show(tmp_path):
    file = read(tmp_path)

    assert to_builtins(file.function("money").definition) == {
        "kind": "keywords",
        "label": "spam",
        "words": ["money", "größe"],
        "column": "text",
        "whole_words": False,
        "ignore_case": True,
    }
    assert to_builtins(file.function("near").definition) == {
        "kind": "like",
        "label": "ham",
        "rows": ["a1", "2"],
        "radius": 0.25,
    }
    assert file.function("keywords_song").definition.column == "body"
    assert file.function("short one").definition.code.startswith("@labeling_function(name=")


@pytest.mark.parametrize(
    ("code", "ignore_case"),
    [
        ('regex("a", "x", flags=re.IGNORECASE, name="f")', True),
        ('regex("a", "x", flags=re.I, name="f")', True),
        ('regex("a", "(?i)x", name="f")', True),
        ('regex("a", "x", name="f")', False),
    ],
)
def test_patterns_in_any_case_are_read_however_they_say_so(tmp_path, code, ignore_case):
    file = read(tmp_path, f"import re\nfrom epoxy import regex\nf = {code}\n")

    definition = file.function("f").definition

    assert (definition.pattern, definition.ignore_case) == ("x", ignore_case)


@pytest.mark.parametrize(
    "code",
    [
        'regex("a", PATTERN, name="f")',
        'regex("a", *PARTS, name="f")',
        'regex("a", "(", name="f")',
    ],
)
def test_code_that_says_more_than_a_form_can_show_has_no_definition(tmp_path, code):
    file = read(tmp_path, f"import re\nfrom epoxy import regex\nf = {code}\n")

    assert file.function("f").definition is None


def test_a_change_leaves_every_other_byte(tmp_path):
    file = read(tmp_path)

    changed = file.with_changed("money", {**WORDS, "words": ["cash", "größer"]}).decode()

    new = 'ep.keywords("spam", "cash", "größer", name="money")'
    assert changed == LFS.replace('ep.keywords("spam", "money", "größe", name="money")', new)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_byte_order_mark_and_line_endings_survive(tmp_path, mark, newline):
    text = LFS.replace("\n", newline)
    file = read(tmp_path, mark + text.encode())

    changed = file.with_changed("links", {"kind": "regex", "label": "spam", "pattern": r"\d+€"})
    added = file.with_added(
        {"kind": "python", "code": "@ep.labeling_function\ndef f(row):\n    1\n"}, "f"
    )

    old, new = 'rx("spam", r"https?://", name="links")', r'rx("spam", r"\d+€", name="links")'
    assert changed == mark + text.replace(old, new).encode()
    assert added.startswith(mark + text.encode())
    assert added.count(b"\n") == added.count(newline.encode())


def test_a_function_is_added_as_readable_code(tmp_path):
    file = read(tmp_path, "import epoxy\n\nmoney = epoxy.keywords('spam', 'money')\n")

    added = file.with_added(WORDS, "money").decode()

    assert added.splitlines()[-1] == (
        'money_2 = epoxy.keywords("spam", "cash", "gift card", name="money")'
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "import epoxy\n"),
        ('"""Doc."""\nx = 1\n', '"""Doc."""\nimport epoxy\nx = 1\n'),
        (
            "from __future__ import annotations\n",
            "from __future__ import annotations\nimport epoxy\n",
        ),
        ('"""Doc."""', '"""Doc."""\nimport epoxy\n'),
    ],
)
def test_what_is_needed_is_imported(tmp_path, before, after):
    added = read(tmp_path, before).with_added(WORDS, "cash").decode()

    assert added.startswith(after)


def test_a_file_that_lists_its_functions_lists_the_new_one_too(tmp_path):
    file = read(tmp_path, "import epoxy\na = epoxy.keywords('x', 'y', name='a')\nlfs = (a,)")

    added = file.with_added(WORDS, "cash").decode()

    names: dict = {}
    exec(added, names)
    assert [each.name for each in names["lfs"]] == ["a", "cash"]


def test_kinds_may_change_where_both_are_calls(tmp_path):
    file = read(tmp_path, "from epoxy import keywords\na = keywords('x', 'y', name='a')  # why\n")

    changed = file.with_changed(
        "a", {"kind": "like", "label": "x", "rows": ["1"], "radius": 1}, "b"
    )

    assert changed.decode() == (
        "import epoxy\nfrom epoxy import keywords\n"
        'a = epoxy.like("x", rows=["1"], radius=1.0, name="b")  # why\n'
    )


def test_python_code_replaces_the_whole_function(tmp_path):
    code = '@labeling_function(name="short one")\ndef shorter(row):\n    return None\n'

    changed = read(tmp_path).with_changed("short one", {"kind": "python", "code": code}).decode()

    start, end = LFS.index("@labeling_function"), LFS.index("\n\n\nmade")
    assert changed == LFS[:start] + code.rstrip() + LFS[end:]


LABELS = st.text(min_size=1, max_size=12)
FORMS = st.one_of(
    st.fixed_dictionaries(
        {
            "kind": st.just("keywords"),
            "label": LABELS,
            "words": st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=8),
            "column": LABELS,
            "whole_words": st.booleans(),
            "ignore_case": st.booleans(),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("like"),
            "label": LABELS,
            "rows": st.lists(LABELS, min_size=1, max_size=5, unique=True),
            "radius": st.floats(0, 1e6),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("regex"),
            "label": LABELS,
            "pattern": st.sampled_from(['a"b', "a'\"b", r"\s+\"", "x\\\\", "ü\n", r"(?s)a.b", "☃"]),
            "column": LABELS,
            "ignore_case": st.booleans(),
        }
    ),
)


@given(form=FORMS, name=LABELS)
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_back_and_nothing_else_runs(form, name, tmp_path_factory):
    file = FunctionsFile(tmp_path_factory.getbasetemp() / "lfs.py", LFS.encode())
    if name in [each.name for each in file.functions]:
        return
    try:
        added = file.with_added(form, name)
        changed = file.with_changed("links", form)
    except (StoreError, UnicodeError):  # lone surrogates are no text
        assert any(0xD800 <= ord(c) < 0xE000 for c in str(form) + name)
        return

    for content, called in ((added, name), (changed, "links")):
        found = FunctionsFile(file.path, content).function(called)
        assert found.definition == form_of(form)
    statements = len(ast.parse(LFS).body)
    assert len(ast.parse(added).body) == statements + 1
    assert len(ast.parse(changed).body) == statements


def test_a_file_that_changed_since_is_not_written_over(tmp_path):
    file = read(tmp_path)
    (tmp_path / "lfs.py").write_text("other")

    with pytest.raises(FileChanged, match=r"lfs\.py was changed since it was read, so nothing"):
        file.write(b"mine", file.hash)

    assert (tmp_path / "lfs.py").read_text() == "other"


@pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX's")
def test_links_and_modes_survive_a_write(tmp_path):
    (tmp_path / "real.py").write_bytes(b"x = 1\n")
    (tmp_path / "real.py").chmod(0o640)
    (tmp_path / "lfs.py").symlink_to("real.py")
    file = FunctionsFile.read(tmp_path / "lfs.py")

    file.write(b"x = 2\n", file.hash)

    assert (tmp_path / "lfs.py").is_symlink()
    assert (tmp_path / "real.py").read_bytes() == b"x = 2\n"
    assert stat.S_IMODE((tmp_path / "real.py").stat().st_mode) == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lfs.py", "real.py"]


@pytest.mark.parametrize(
    ("definition", "error", "match"),
    [
        ({"kind": "words"}, ParameterError, "'words'"),
        ("keywords", ParameterError, "object"),
        ({"kind": "regex", "label": "x"}, ParameterError, "pattern"),
        ({**WORDS, "wrods": []}, ParameterError, "wrods"),
        ({**WORDS, "words": "cash"}, ParameterError, "words"),
        ({**WORDS, "words": []}, ParameterError, "keywords needs at least one word"),
        ({**WORDS, "ignore_case": 1}, ParameterError, "ignore_case"),
        (
            {"kind": "regex", "label": "x", "pattern": "("},
            ParameterError,
            "not a regular expression",
        ),
        ({"kind": "python", "code": "x = 1"}, CodeError, "the code defines no function; write def"),
        ({"kind": "python", "code": "def f(row)\n"}, CodeError, "the code fails on line 1: Syntax"),
        (
            {"kind": "python", "code": "def f(row): 1"},
            CodeError,
            "'f' is no labeling function; dec",
        ),
        ({"kind": "python", "code": "x = '\0'"}, CodeError, "null bytes"),
    ],
)
def test_what_cannot_be_written_is_said(tmp_path, definition, error, match):
    file = read(tmp_path)

    with pytest.raises(error, match=match):
        file.with_added(definition, "f2")


def test_names_are_taken_once(tmp_path):
    file = read(tmp_path)
    code = "@ep.labeling_function\ndef f(row):\n    return None\n"

    with pytest.raises(ParameterError, match="has a function 'money' already; choose another name"):
        file.with_added(WORDS, "money")
    with pytest.raises(
        ParameterError, match="the code defines 'f' and not 'g'; give both one name"
    ):
        file.with_added({"kind": "python", "code": code}, "g")
    with pytest.raises(
        UnknownName, match=r"no function in .*lfs\.py named 'mony'; did you mean 'mon"
    ):
        file.with_changed("mony", WORDS)
    with pytest.raises(ParameterError, match="written as keywords and cannot become python in its"):
        file.with_changed("money", {"kind": "python", "code": code})


def test_files_that_cannot_be_read_are_said(tmp_path):
    with pytest.raises(StoreError, match=r"there is no file .*lfs\.py; write your labeling"):
        FunctionsFile.read(tmp_path / "lfs.py")
    with pytest.raises(CodeError, match="line 2: it is not utf-8; save it as UTF-8"):
        read(tmp_path, b"x = 1\ny = '\xff'\n").text  # noqa: B018
    with pytest.raises(CodeError, match="fails on line 1: SyntaxError"):
        read(tmp_path, b"def").functions  # noqa: B018


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    file = read(tmp_path)

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)

    with pytest.raises(
        StoreError, match=r"cannot be written \(No space left on device\), and is as"
    ):
        file.write(b"x = 1\n", file.hash)
    assert file.path.read_text() == LFS
    assert [each.name for each in tmp_path.iterdir()] == ["lfs.py"]
