from __future__ import annotations

import datetime
import functools
import subprocess
import sys
import textwrap
import threading
import types

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from epoxy.functions.declare import from_column, from_model, keywords, regex
from epoxy.functions.define import labeling_function
from epoxy.functions.fingerprint import fingerprint

BEFORE = """
import math
import re
from collections import defaultdict
from functools import lru_cache
from epoxy.functions.define import labeling_function

WORDS = {"money", "gift", "free"}
LINK = re.compile(r"https?://", re.I)
WEIGHTS = defaultdict(float, {"money": 1.0})

def make(limit):
    def loud(text):
        return text.isupper() and len(text) > limit
    return loud

loud = make(10)
find = LINK.search

@lru_cache
def clean(text):
    return text.strip().lower()  # tidy

class Scorer:
    __slots__ = ("last",)
    bonus = 2

    @property
    def half(self):
        return 0.5

    @staticmethod
    def third():
        return 1 / 3

    def score(self, text):
        return len(text) + self.bonus

score = Scorer().score

scorer = Scorer()

def later():
    return never_defined or (lambda: soon)() or find("a")

def unused(text):
    return "unused"

@labeling_function
def spammy(row, least=3):
    text = clean(row.text)
    hits = [word for word in text.split() if word in WORDS]
    known = {"spam", "ham"}
    if LINK.search(text) or loud(row.text) or math.sqrt(scorer.score(text)) > 9 or score(text) > later():
        return "spam"
    return "spam" if len(hits) > least or WEIGHTS[text] > 2 else None
"""


def loaded(source, name="my_functions"):
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def of(source):
    return fingerprint(loaded(source).spammy)


def test_the_same_text_has_the_same_fingerprint():
    assert of(BEFORE) == of(BEFORE)
    assert of(BEFORE) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 9 or", "> 8 or"),
        ("least=3", "least=4"),
        ('"money", "gift", "free"', '"money", "gift"'),
        ("https?://", "http://"),
        ("re.I)", "0)"),
        ("make(10)", "make(11)"),
        ("text.isupper()", "text.islower()"),
        (".strip().lower()", ".lower()"),
        ("bonus = 2", "bonus = 3"),
        ("0.5", "0.25"),
        ("1 / 3", "1 / 4"),
        ("soon", "never"),
        ("len(text) + self.bonus", "len(text) - self.bonus"),
        ('"money": 1.0', '"money": 1.5'),
        ("math.sqrt", "math.log"),
        ("len(hits)", "max(hits)"),
        ('known = {"spam", "ham"}', 'known = {"spam", "eggs"}'),
        ("[word for word in text.split() if word in WORDS]", "[w for w in text if w in WORDS]"),
    ],
)
def test_an_edit_that_can_matter_changes_the_fingerprint(old, new):
    assert old in BEFORE

    assert of(BEFORE.replace(old, new)) != of(BEFORE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# tidy", "# made neat"),
        ("WORDS = ", "\n\n\nWORDS = "),
        ('return "unused"', "return None"),  # of a function nobody calls
    ],
)
def test_an_edit_that_cannot_matter_does_not(old, new):
    assert old in BEFORE

    assert of(BEFORE.replace(old, new)) == of(BEFORE)


def test_a_global_changed_at_run_time_counts():
    module = loaded(BEFORE)
    before = fingerprint(module.spammy)

    module.WORDS.add("winner")

    assert fingerprint(module.spammy) != before


@pytest.mark.parametrize("reading", ["import helper", "from helper import clean"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_helper_in_another_module_counts(monkeypatch, reading, inside):
    call = "helper.clean" if reading == "import helper" else "clean"
    body = (
        f"    {reading}\n    return {call}(row.text)\n"
        if inside
        else f"    return {call}(row.text)\n"
    )
    source = ("" if inside else reading + "\n") + "def spammy(row):\n" + body

    def with_helper(text):
        helper = loaded(
            f"def clean(text):\n    return {text}\ndef other():\n    return 1", "helper"
        )
        monkeypatch.setitem(sys.modules, "helper", helper)
        return of(source)

    assert with_helper("text.lower()") != with_helper("text.upper()")
    assert with_helper("text.lower()") == with_helper("text.lower()") is not None


def test_a_library_counts_by_its_version_wherever_it_is_imported():
    inside = "def spammy(row):\n    import json\n    return json.loads(row.text)\n"
    outside = "import os\ndef spammy(row):\n    return os.path.basename(row.text)\n"

    assert of(inside) == of(inside) is not None
    assert of(outside) == of(outside) is not None


def test_a_name_not_yet_given_a_value_counts_as_empty():
    def outer():
        def spammy(row):
            return later

        before = fingerprint(spammy)
        later = 1
        return before, fingerprint(spammy)

    before, after = outer()

    assert None not in (before, after)
    assert before != after


def test_functions_that_call_each_other_have_a_fingerprint():
    source = (
        "def spammy(row):\n    return other(row)\ndef other(row):\n    return spammy(row) or {}\n"
    )

    assert of(source.format(1)) == of(source.format(1)) is not None
    assert of(source.format(1)) != of(source.format(2))


@pytest.mark.parametrize(
    "make",
    [threading.Lock, lambda: (each for each in "abc"), sys._getframe],
    ids=["lock", "gen", "frame"],
)
def test_what_cannot_be_hashed_gives_none(make):
    thing = make()

    @labeling_function
    def holds(row):
        return thing

    assert fingerprint(holds) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (keywords("spam", "money"), keywords("spam", "gift", name="keywords_money")),
        (keywords("spam", "money"), keywords("ham", "money")),
        (keywords("spam", "money"), keywords("spam", "money", whole_words=True)),
        (keywords("spam", "money"), keywords("spam", "money", column="title")),
        (regex("spam", "a"), regex("spam", "a", flags=2)),
        (from_column("worker"), from_column("worker", {1: "spam"})),
        (from_column("worker", {1: "ham"}), from_column("worker", {1: "spam"})),
        (np.arange(3), np.arange(3.0)),
        (np.array(["a", None], dtype=object), np.array(["a", 1], dtype=object)),
        (bytearray(b"a"), bytearray(b"b")),
        (types.MappingProxyType({1: 2}), types.MappingProxyType({1: 3})),
        (np.log, np.exp),
        (str.lower, str.upper),
        (len, sum),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (("ab", "c"), ("a", "bc")),
        ({1, 2}, {1, 3}),
        (1, True),
        ("1", 1),
        ([1], (1,)),
    ],
)
def test_different_values_have_different_fingerprints(one, other):
    assert fingerprint(one) == fingerprint(one) is not None
    assert fingerprint(one) != fingerprint(other)


def test_a_batch_function_counts_by_its_code_and_its_column():
    def short(texts):
        return [None for text in texts]

    one, other = (labeling_function(batch=True, column=name)(short) for name in ("text", "title"))

    assert fingerprint(one) == fingerprint(one) is not None
    assert fingerprint(one) != fingerprint(other)


def test_a_model_counts_by_what_it_learned():
    def voter(texts):
        model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["spam", "ham"])
        return fingerprint(from_model(model, "text"))

    assert voter(["free money", "lovely song"]) == voter(["free money", "lovely song"]) is not None
    assert voter(["free money", "lovely song"]) != voter(["free gifts", "lovely song"])


def test_fingerprints_do_not_depend_on_the_process(tmp_path):
    (tmp_path / "my_functions.py").write_text(BEFORE)
    script = textwrap.dedent(
        """
        from epoxy.functions.fingerprint import fingerprint
        from my_functions import spammy
        print(fingerprint(spammy))
        """
    )

    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert found == {of(BEFORE)}


def test_a_module_handed_on_as_a_value_cannot_be_counted(monkeypatch):
    monkeypatch.setitem(sys.modules, "helper", loaded("x = 1", "helper"))

    assert of("import helper\ndef spammy(row):\n    return getattr(helper, row.name)\n") is None


def test_a_helper_imported_relatively_counts(monkeypatch):
    def with_helper(text):
        monkeypatch.setitem(sys.modules, "mine", types.ModuleType("mine"))
        monkeypatch.setitem(sys.modules, "mine.helper", loaded(f"def clean(x): return {text}"))
        module = types.ModuleType("mine.lfs")
        module.__package__ = "mine"
        exec("def spammy(row):\n    from .helper import clean\n    return clean(row)", vars(module))
        return fingerprint(module.spammy)

    assert with_helper("1") == with_helper("1") is not None
    assert with_helper("1") != with_helper("2")
