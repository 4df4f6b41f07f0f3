from __future__ import annotations

import re
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from epoxy.encoders import column_of
from epoxy.errors import (
    AlignmentError,
    FrameError,
    ParameterError,
    UnknownName,
    VoteError,
)
from epoxy.functions.declare import from_column, from_model, keywords, regex
from epoxy.functions.define import LabelingFunction, as_labeling_function, labeling_function
from epoxy.rows import Row, Rows

COMMENTS = [
    {"text": "Subscribe to my channel", "likes": 0},
    {"text": "moved to tears", "likes": 12},
    {"text": None, "likes": 3},
]


@labeling_function
def asks_to_subscribe(row):
    """Say spam to beggars."""
    return "spam" if row.text and "subscribe" in row.text.lower() else None


@labeling_function(name="liked")
def _liked(row):
    return "ham" if row["likes"] > 10 else None


@labeling_function(batch=True)
def popular(rows):
    return np.where(rows["likes"].to_numpy() > 10, "ham", None)


EVERY_KIND = [
    asks_to_subscribe,
    _liked,
    popular,
    keywords("spam", "subscribe"),
    regex("ham", r"to\s+tears"),
    from_column("likes", {0: "spam", 12: "ham", 3: None}),
    from_model(
        LogisticRegression().fit([[0], [1], [11], [12]], ["spam", "spam", "ham", "ham"]),
        ["likes"],
        confidence=0.9,
    ),
]


@pytest.mark.parametrize("lf", EVERY_KIND, ids=lambda lf: lf.name)
def test_every_kind_has_a_name_and_votes_once_per_row(lf):
    votes = lf.vote(COMMENTS)

    assert isinstance(lf, LabelingFunction)
    assert isinstance(lf.name, str)
    assert len(votes) == 3
    assert set(votes) <= {"spam", "ham", None}


@pytest.mark.parametrize("lf", [lf for lf in EVERY_KIND if lf is not popular], ids=lambda f: f.name)
def test_every_kind_says_of_one_row_what_it_says_of_a_table(lf):
    assert [lf(row) for row in COMMENTS] == lf.vote(COMMENTS)


@pytest.mark.parametrize(
    "row",
    [
        {"text": "subscribe"},
        Row({"text": "subscribe"}),
        SimpleNamespace(text="subscribe"),
        namedtuple("Comment", ["text"])("subscribe"),
        pd.Series({"text": "subscribe"}),
    ],
    ids=["dict", "Row", "namespace", "namedtuple", "Series"],
)
@pytest.mark.parametrize("lf", [asks_to_subscribe, keywords("spam", "subscribe")])
def test_a_labeling_function_is_callable_on_any_kind_of_row(lf, row):
    assert lf(row) == "spam"


@pytest.mark.parametrize("make", [pd.Series, pl.Series, pa.array, np.array, list, tuple])
def test_a_batch_function_may_answer_in_any_kind_of_column(make):
    @labeling_function(batch=True)
    def any_kind(rows):
        return make(["spam", None])

    assert any_kind.vote([{"n": 1}, {"n": 2}]) == ["spam", None]


def test_a_lambda_needs_a_name():
    assert labeling_function(name="never")(lambda row: None).name == "never"


# rows


def test_a_row_reads_both_ways_and_prefers_its_columns_to_its_methods():
    row = Row({"text": "a", "keys": "b", "first name": "c"})

    assert (row.text, row["text"], row.keys, row["first name"]) == ("a", "a", "b", "c")
    assert dict(**Row({"a": 1})) == {"a": 1}
    assert repr(row) == "Row({'text': 'a', 'keys': 'b', 'first name': 'c'})"


# keywords and patterns


@pytest.mark.parametrize(
    ("lf", "text", "found"),
    [
        (keywords("a", "free"), "FREE money", True),
        (keywords("a", "free", ignore_case=False), "FREE money", False),
        (keywords("a", "cat"), "category", True),
        (keywords("a", "cat", whole_words=True), "category", False),
        (keywords("a", "cat", whole_words=True), "a cat!", True),
        (keywords("a", "c++", whole_words=True), "I write C++11", True),
        (keywords("a", "straße", whole_words=True), "in der Straße.", True),
        (keywords("a", "a.c"), "abc", False),
        (keywords("a", "one", "two words"), "these Two words", True),
        (regex("a", r"check\s+out"), "check \n out", True),
        (regex("a", r"CHECK", flags=re.IGNORECASE), "check", True),
        (regex("a", re.compile(r"^b$", re.MULTILINE)), "a\nb\nc", True),
        (regex("a", r"(?<!not )good"), "not good", False),
        (regex("a", r"(\w)\1"), "good", True),
        (regex("a", r"^b{1001}$"), "b" * 1001, True),  # more than RE2 counts to
    ],
)
def test_words_and_patterns_are_found_as_re_finds_them(lf, text, found):
    expected = "a" if found else None

    assert lf({"text": text}) == expected
    assert lf.vote([{"text": text}, {"text": None}]) == [expected, None]


# characters on which two regular expression engines are apt to differ
TROUBLE = "aAkKsSiI\u212a\u017f\u0130\u0131 \n\t\v\f\r\x1c\x1f\x85\xa0\u2003\u2028’é߀中٣²①🎉_9.$-"
PATTERNS = [
    r"k", r"s", r"i", r"[^i]", r"[a-z]", r"^a", r"a$", r"^$", r"$", r"a\s", r"\S", r"\s$", r"\bk\b",
    r"\w", r"\W", r"\d", r"\D", r"\B", r".", r"a.k", r"a{,2}k", r"[9[:alpha:]]", r"(?i)k", r"(?i:s)",
    r"(?m)^s$", r"(?s)a.b", r"(?:a|k)+s", r"(?P<x>a)k", r"(?=a)", r"é", r"\x41", r"\.", r"\$",
    r"[\s]a", r"\Aa", r"a\Z", r"\ta", r"\\s",
]  # fmt: skip


@given(
    st.lists(st.text(alphabet=TROUBLE, max_size=6), min_size=1, max_size=8),
    st.sampled_from(PATTERNS),
    st.sampled_from([0, re.I, re.M, re.S, re.I | re.M, re.A, re.X]),
)
@example(["a\n"], r"a$", 0)
@example(["\u0130", "\u0131", "\u212a", "\u017f"], r"i", re.I)
@example(["\u00a0", "\v", "\x1c"], r"\s", 0)
@settings(deadline=None, max_examples=200)
def test_the_vectorised_search_agrees_with_re(texts, pattern, flags):
    lf = regex("a", pattern, flags=flags)

    found = lf.vote([{"text": text} for text in texts])

    assert found == ["a" if re.search(pattern, text, flags) else None for text in texts]


@given(
    st.lists(st.text(alphabet=TROUBLE, max_size=8), min_size=1, max_size=6),
    st.lists(st.text(alphabet=TROUBLE, min_size=1, max_size=3), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=100)
def test_keywords_say_of_a_column_what_they_say_of_each_row(texts, words, whole, ignore_case):
    lf = keywords("a", *words, whole_words=whole, ignore_case=ignore_case)
    rows = [{"text": text} for text in texts]

    assert lf.vote(rows) == [lf(row) for row in rows]


# models and columns


def test_a_model_votes_only_where_it_is_confident():
    texts = ["free money", "free gift", "lovely song", "great song"]
    model = make_pipeline(CountVectorizer(), MultinomialNB())
    model.fit(texts, ["spam", "spam", "ham", "ham"])

    lf = from_model(model, "text", confidence=0.75, name="bayes")
    votes = lf.vote([{"text": "free song"}, {"text": "free free money"}, {"text": "lovely song"}])

    assert votes == [None, "spam", "ham"]
    assert (lf.name, lf.labels) == ("bayes", ("ham", "spam"))
    assert lf({"text": "free free money"}) == "spam"


def test_a_model_with_other_classes_needs_a_mapping():
    model = LogisticRegression().fit([[0], [1], [9], [10]], [0, 0, 1, 1])

    lf = from_model(model, ["n"], mapping={0: None, 1: "spam"})

    assert lf.vote([{"n": 0}, {"n": 10}]) == [None, "spam"]
    assert lf.name == "logistic_regression"
    assert lf.labels == ("spam",)


def test_a_model_reads_a_column_of_vectors():
    model = LogisticRegression().fit(np.eye(2).repeat(9, axis=0) * 9, ["a"] * 9 + ["b"] * 9)

    lf = from_model(model, "vector")

    assert lf.vote([{"vector": [9.0, 0.0]}, {"vector": [0.0, 9.0]}]) == ["a", "b"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, list])
def test_a_model_fitted_on_named_columns_gets_them_by_name(make):
    frame = pd.DataFrame({"n": [0.0, 1.0, 9.0, 10.0], "m": [0.0, 0.0, 1.0, 1.0]})
    model = LogisticRegression().fit(frame, ["ham", "ham", "spam", "spam"])

    lf = from_model(model, ["n", "m"])

    rows = [{"id": 7, "m": 0.0, "n": 0.0}, {"id": 8, "m": 1.0, "n": 10.0}]
    assert lf.vote(make(rows)) == ["ham", "spam"]


def test_a_column_votes_what_it_says_and_abstains_where_it_says_nothing():
    frame = pd.DataFrame({"worker": ["spam", None, "ham"]})

    assert from_column("worker").vote(frame) == ["spam", None, "ham"]
    assert from_column("worker").name == "worker"


def test_an_integer_column_with_gaps_still_finds_its_mapping():
    frame = pd.DataFrame({"worker": [1, None, 0]})  # pandas makes these floats

    assert from_column("worker", {1: "spam", 0: "ham"}).vote(frame) == ["spam", None, "ham"]


# frames


class Stream:
    """A table that narwhals does not know and that streams Arrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "frame",
    [
        ["free", None],
        ("free", None),
        pd.Series(["free", None]),
        pd.Series(["free", None], name="text", index=[7, 3]),
        pl.Series(["free", None]),
        pl.LazyFrame({"text": ["", "free", None]}).slice(1),
        pa.chunked_array([["free"], [None]]),
        Stream(pa.table({"text": ["free", None]})),
    ],
    ids=lambda frame: f"{type(frame).__module__}.{type(frame).__name__}",
)
def test_texts_come_in_a_list_a_series_or_a_lazy_frame(frame):
    rows = Rows.of(frame)

    assert list(rows.records()) == [{"text": "free"}, {"text": None}]
    assert rows.frame["text"].to_list() == ["free", None]
    assert keywords("spam", "free").vote(frame) == ["spam", None]


def test_hugging_face_datasets_are_rows_in_their_own_order():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": ["song", "free", "win"], "n": [1, 2, 3]})
    chosen = data.select([1, 0])

    found = [{"text": "free", "n": 2}, {"text": "song", "n": 1}]
    assert list(Rows.of(chosen).records()) == found
    assert list(Rows.of(chosen.to_iterable_dataset()).records()) == found
    assert list(Rows.of(chosen["text"]).records()) == [{"text": "free"}, {"text": "song"}]
    assert column_of(chosen, "text") == ["free", "song"]
    with pytest.raises(FrameError, match=r"a DatasetDict holds the tables \['train'\]; choose one"):
        Rows.of(datasets.DatasetDict({"train": data}))


def test_rows_may_hold_any_object_as_long_as_only_row_functions_read_it():
    thing = object()
    rows = Rows.of([{"image": thing}])

    assert [row.image for row in rows] == [thing]
    with pytest.raises(
        FrameError, match=r"column 'image' is not of one kind .* only a row-at-a-time"
    ):
        rows.frame  # noqa: B018


def test_a_text_column_may_be_categorical_or_of_mixed_objects():
    words = pd.DataFrame({"text": pd.Categorical(["free", None])})
    mixed = pd.DataFrame({"text": pd.Series(["free", 3], dtype=object)})

    assert keywords("spam", "free").vote(words) == ["spam", None]
    with pytest.raises(FrameError, match=r"column 'text' is not of one kind"):
        keywords("spam", "free").vote(mixed)


# errors


@labeling_function(batch=True)
def too_few(rows):
    return ["spam"]


@labeling_function(batch=True)
def one_label(rows):
    return "spam"


NUMBERS = LogisticRegression().fit([[0], [1]], [0, 1])
NAMES = LogisticRegression().fit([[0], [1]], ["a", "b"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: too_few.vote(COMMENTS), AlignmentError, "'too_few' returned 1 votes for 3 rows"),
        (lambda: one_label.vote(COMMENTS), VoteError, "'one_label' returned 'spam'"),
        (lambda: labeling_function(column="text"), ParameterError, "batch=True"),
        (lambda: labeling_function(lambda row: None), ParameterError, "needs a name"),
        (lambda: as_labeling_function(3), ParameterError, "got int 3"),
        (lambda: Row({"text": "a"})["txt"], UnknownName, "did you mean 'text'"),
        (lambda: Row({"text": "a"}).txt, AttributeError, "did you mean 'text'"),
        (lambda: setattr(Row({"text": "a"}), "text", "b"), AttributeError, "cannot be changed"),
        (lambda: keywords("spam"), ParameterError, "at least one word"),
        (lambda: keywords("spam", ""), ParameterError, "no empty one"),
        (lambda: keywords(1, "a"), ParameterError, "label"),
        (lambda: regex("spam", "("), ParameterError, "not a regular expression"),
        (lambda: keywords("spam", "1", column="likes").vote(COMMENTS), FrameError, "'likes'"),
        (lambda: keywords("a", "b", column="txt").vote(COMMENTS), UnknownName, "mean 'text'"),
        (lambda: from_model(RidgeClassifier(), "n"), ParameterError, "RidgeClassifier"),
        (lambda: from_model(LogisticRegression(), "n"), ParameterError, "no classes_"),
        (lambda: from_model(NAMES, "n", confidence=80), ParameterError, "got 80"),
        (lambda: from_model(NAMES, ["text"]).vote(COMMENTS), FrameError, "not all numbers"),
        (lambda: from_model(NUMBERS, ["n"]), ParameterError, r"predicts \[0, 1\]"),
        (lambda: from_model(NUMBERS, ["n"], mapping={0: "a"}), UnknownName, "class named 1"),
        (lambda: from_model(NUMBERS, ["n"], mapping={0: 0, 1: None}), ParameterError, "votes 0"),
        (lambda: from_column("worker", {1: 2}), ParameterError, "'worker' votes 2"),
        (lambda: from_column("n", {1: "a"}).vote([{"n": 1}, {"n": 2}]), VoteError, "2 on row 1"),
        (lambda: Rows.of([]), FrameError, "no rows"),
        (lambda: Rows.of(pd.DataFrame({"text": []})), FrameError, "no rows"),
        (lambda: Rows.of([{}]), FrameError, "no columns"),
        (lambda: Rows.of(["free", 3]), FrameError, "row 0"),
        (lambda: Rows.of("rows.csv"), FrameError, "got str"),
        (lambda: Rows.of(3), FrameError, "got int"),
        (lambda: Rows.of(pd.DataFrame([[1, 2]], columns=["a", "a"])), FrameError, "must differ"),
        (lambda: Rows.of(pa.table([[1], [2]], names=["a", "a"])), FrameError, "must differ"),
        (lambda: Rows.of(pd.DataFrame([[1, 2]], columns=[1, "1"])), FrameError, r"\['1'\]"),
    ],
)
def test_what_cannot_vote_or_be_voted_on_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_plain_function_is_taken_as_a_function_of_a_row():
    def plain(row):
        return row.text

    assert as_labeling_function(plain).vote([{"text": "a"}]) == ["a"]
