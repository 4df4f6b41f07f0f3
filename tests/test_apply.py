from __future__ import annotations

import enum
import os
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.errors import FrameError, LabelError, ParameterError, UnknownName, VoteError
from epoxy.functions.apply import LabelingWarning, apply, apply_report
from epoxy.functions.declare import from_column, keywords, regex
from epoxy.functions.define import labeling_function

COMMENTS = [
    {"text": "check out my channel", "likes": 0},
    {"text": "moved to tears", "likes": 12},
    {"text": "free money", "likes": 1},
    {"text": None, "likes": None},
]
CLASSES = ["spam", "ham"]


@labeling_function
def long_words(row):
    return "ham" if row.text and max(map(len, row.text.split())) > 5 else None


@labeling_function
def loved(row):
    return "ham" if row.likes / 12 >= 1 else None  # None / 12 raises


@labeling_function(batch=True, column="likes")
def unloved(likes):
    return np.where((likes < 2).fill_null(False).to_numpy(), "spam", None)


FUNCTIONS = [
    keywords("spam", "money", "channel"),
    regex("spam", r"check\s+out"),
    long_words,
    unloved,
    from_column("text", {row["text"]: None for row in COMMENTS}, name="silent"),
]


def test_every_function_votes_on_every_row():
    votes = apply(FUNCTIONS, COMMENTS, classes=CLASSES)

    assert votes.sources == (
        "keywords_money_channel",
        "regex_check_s_out",
        "long_words",
        "unloved",
        "silent",
    )
    assert votes.classes == ("spam", "ham")
    assert votes.matrix.tolist() == [
        [0, 0, 1, 0, -1],
        [-1, -1, -1, -1, -1],
        [0, -1, -1, 0, -1],
        [-1, -1, -1, -1, -1],
    ]


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, lambda rows: Shuffled(rows).frame]
)
def test_every_kind_of_frame_gives_the_same_votes(make):
    expected = apply(FUNCTIONS, COMMENTS, classes=CLASSES)

    assert apply(FUNCTIONS, make(COMMENTS), classes=CLASSES).matrix.tolist() == (
        expected.matrix.tolist()
    )


class Shuffled:
    """A pandas frame whose index is in another order than its rows."""

    def __init__(self, rows):
        self.frame = pd.DataFrame(rows, index=[3, 1, 0, 2])


texts = st.lists(st.sampled_from(["free money", "lovely song", "", "x" * 9, None]), min_size=2)


@given(texts, st.randoms())
@settings(deadline=None, max_examples=50)
def test_permuting_the_rows_permutes_the_votes(texts, random):
    rows = [{"text": text, "likes": size} for size, text in enumerate(texts)]
    order = random.sample(range(len(rows)), len(rows))
    lfs = FUNCTIONS[:4]

    votes = apply(lfs, rows, classes=CLASSES)
    permuted = apply(lfs, [rows[row] for row in order], classes=CLASSES)

    assert np.array_equal(votes.matrix[order], permuted.matrix)


# classes


def test_classes_that_are_not_given_are_those_declared_or_returned_sorted():
    lfs = [keywords("spam", "money"), keywords("ads", "nowhere to be found"), long_words]

    assert apply(lfs, COMMENTS).classes == ("ads", "ham", "spam")
    assert apply(lfs[::-1], COMMENTS[::-1]).classes == ("ads", "ham", "spam")


def test_labels_may_be_members_of_a_text_enum():
    class Label(str, enum.Enum):  # noqa: UP042
        SPAM = "spam"
        HAM = "ham"

    @labeling_function
    def by_enum(row):
        return Label.HAM if row.likes == 12 else Label.SPAM

    assert apply([by_enum], COMMENTS).classes == ("ham", "spam")
    assert apply([keywords(Label.SPAM, "a"), keywords(Label.HAM, "b")], COMMENTS).classes == (
        "ham",
        "spam",
    )
    assert apply([by_enum], COMMENTS, classes=[Label.SPAM, Label.HAM]).classes == ("spam", "ham")
    assert apply([by_enum], COMMENTS, classes=CLASSES).matrix[:, 0].tolist() == [0, 1, 0, 0]


def test_a_label_that_is_no_class_is_named_with_function_row_and_classes():
    @labeling_function
    def short(row):
        return "maybe" if row.likes == 1 else None

    with pytest.raises(
        VoteError,
        match=r"labeling function 'short' returned 'maybe' on row 2; "
        r"expected one of \['spam', 'ham'\] or None to abstain",
    ):
        apply([short], COMMENTS, classes=CLASSES)


@pytest.mark.parametrize("answer", [1, True, 0.5, ["spam"], b"spam"])
def test_an_answer_that_is_no_text_is_refused(answer):
    @labeling_function
    def odd(row):
        return answer

    with pytest.raises(VoteError, match=r"'odd' returned .* on row 0; expected one of \['spam'"):
        apply([odd], COMMENTS, classes=CLASSES)
    with pytest.raises(VoteError, match=r"'odd' returned .* on row 0; expected a label as text"):
        apply([odd], COMMENTS)


@labeling_function
def _never(row):
    raise KeyboardInterrupt("no function may run before the call is known to be sound")


# bad calls


@pytest.mark.parametrize(
    ("lfs", "options", "error", "message"),
    [
        ([], {}, ParameterError, "no labeling function"),
        (long_words, {}, ParameterError, "got RowFunction"),
        ([long_words, "x"], {}, ParameterError, "got str 'x'"),
        ([_never, _never], {}, VoteError, r"\['_never'\] more than once"),
        ([_never], {"frame": []}, FrameError, "no rows"),
        ([_never, keywords("spam", "a", column="txt")], {}, UnknownName, "did you mean 'text'"),
        ([_never, keywords("span", "money")], {}, VoteError, "'span'.*did you mean 'spam'"),
        ([from_column("likes", {12: "ham"})], {}, VoteError, "0 on row 0"),
        ([keywords("spam", "money")], {"classes": None}, LabelError, r"\['spam'\]"),
        ([_never], {"processes": 0}, ParameterError, "got 0"),
        ([loved], {"on_error": "no"}, ParameterError, "got 'no'"),
    ],
)
def test_a_bad_call_is_explained_before_any_function_runs(lfs, options, error, message):
    with pytest.raises(error, match=message):
        apply(lfs, **{"frame": COMMENTS, "classes": CLASSES} | options)


# functions that raise


def test_a_function_that_raises_is_contained_and_the_others_survive():
    with pytest.warns(LabelingWarning) as caught:
        votes = apply([loved, long_words], COMMENTS, classes=CLASSES)

    assert votes.matrix.tolist() == [[-1, 1], [1, -1], [-1, -1], [-1, -1]]
    (warning,) = caught
    assert "labeling function 'loved' raised on 1 row, first on row 3: TypeError" in str(
        warning.message
    )
    assert "these rows abstain" in str(warning.message)
    assert warning.message.failures[0].rows == (3,)
    assert warning.filename == __file__


def test_the_report_names_function_rows_first_error_and_traceback():
    done = apply_report([loved, _raises_on_even, long_words], COMMENTS, classes=CLASSES)

    assert [(failure.name, failure.rows, failure.error) for failure in done.failures] == [
        ("loved", (3,), "TypeError: unsupported operand type(s) for /: 'NoneType' and 'int'"),
        ("_raises_on_even", (0, 3), "KeyError: 'even'"),
    ]
    assert 'raise KeyError("even")' in done.failures[1].traceback
    assert "epoxy/applying.py" not in done.failures[1].traceback.replace(os.sep, "/")
    assert list(done.seconds) == ["loved", "_raises_on_even", "long_words"]


@labeling_function
def _raises_on_even(row):
    if (row.likes or 0) % 2 == 0 and row.likes != 12:
        raise KeyError("even")
    return "ham"


def test_a_failing_batch_function_abstains_everywhere():
    @labeling_function(batch=True)
    def broken(rows):
        return rows["no such column"]

    done = apply_report([broken, long_words], COMMENTS, classes=CLASSES)

    assert done.votes.coverage.tolist() == [0, 0.25]
    assert done.failures[0].rows == (0, 1, 2, 3)


def test_a_mistyped_attribute_is_reported_with_the_column_that_was_meant():
    @labeling_function
    def typo(row):
        return "spam" if row.txt else None

    (failure,) = apply_report([typo], COMMENTS, classes=CLASSES).failures

    assert failure.error.startswith("AttributeError: no column named 'txt'; did you mean 'text'?")


@pytest.mark.parametrize("batch", [False, True])
def test_a_function_that_ends_the_program_costs_its_rows_only(batch):
    @labeling_function(name="leaves", batch=batch)
    def leaves(row):
        sys.exit("enough")

    done = apply_report([leaves, *FUNCTIONS], COMMENTS, classes=CLASSES)

    assert (done.votes.matrix[:, 0] == -1).all()
    assert done.failures[0].error == "SystemExit: enough"
    assert (done.votes.matrix[:, 1:] == apply(FUNCTIONS, COMMENTS, classes=CLASSES).matrix).all()


def test_an_exception_without_a_message_to_show_is_contained():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    @labeling_function
    def mute(row):
        raise Mute

    done = apply_report([mute], COMMENTS, classes=CLASSES)

    assert done.failures[0].error == "Mute (its message cannot be shown)"


# progress


def test_progress_counts_every_vote_and_never_goes_back():
    seen = []
    rows = COMMENTS * 100

    apply(FUNCTIONS, rows, classes=CLASSES, progress=lambda done, total: seen.append((done, total)))

    assert seen == sorted(seen)
    assert seen[-1] == (5 * 400, 5 * 400)
    assert len(seen) > 5


# processes


def test_processes_give_the_same_votes_and_failures():
    rows = COMMENTS * 25
    offset = 12
    closure = labeling_function(name="closure")(
        lambda row: "ham" if row.likes == offset else None,
    )
    lfs = [loved, closure, _raises_on_even, *FUNCTIONS]

    serial = apply_report(lfs, rows, classes=CLASSES)
    parallel = apply_report(lfs, rows, classes=CLASSES, processes=2)

    assert np.array_equal(serial.votes.matrix, parallel.votes.matrix)
    assert [(f.name, f.rows, f.error) for f in serial.failures] == [
        (f.name, f.rows, f.error) for f in parallel.failures
    ]


def test_a_function_that_cannot_travel_is_refused():
    lock = threading.Lock()

    @labeling_function
    def locked(row):
        with lock:
            return "spam"

    with pytest.raises(ParameterError, match="'locked' holds something that cannot be sent"):
        apply([locked, long_words], COMMENTS, classes=CLASSES, processes=2)


def test_a_function_that_ends_its_process_is_reported():
    @labeling_function
    def ends(row):
        os._exit(1)

    with pytest.raises(
        VoteError, match=r"a process died while it ran \['ends'\]; one of them ends"
    ):
        apply([ends], COMMENTS, classes=CLASSES, processes=2)


def test_functions_of_a_script_run_in_processes_without_a_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from epoxy.functions.apply import apply
            from epoxy.functions.define import labeling_function

            WORD = "money"

            def has(row, word):
                return word in row.text

            @labeling_function
            def money(row):
                return "spam" if has(row, WORD) else None

            rows = [{"text": "free money"}, {"text": "song"}]
            print(apply([money], rows, classes=["ham", "spam"], processes=2).matrix.tolist())
            """
        )
    )

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("[[1], [-1]]\n", "")


# Snorkel


class SnorkelLike:
    """What a Snorkel labeling function looks like from outside; no Snorkel needed."""

    def __init__(self, name, function, pre=()):
        self.name, self._function, self._pre = name, function, pre

    def __call__(self, x):
        for preprocessor in self._pre:
            x = preprocessor(x)
        return self._function(x)


def add_size(x):
    x.size = len(x["text"] or "")
    return x


LONG = SnorkelLike("long", lambda x: 1 if x.size > 12 else -1, [add_size])
LIKED = SnorkelLike("liked", lambda x: 0 if (x.get("likes") or 0) > 2 else -1)


def test_snorkel_functions_work_as_they_are():
    votes = apply([LONG, LIKED], COMMENTS, classes=["ham", "spam"])

    assert votes.sources == ("long", "liked")
    assert votes.matrix.tolist() == [[1, -1], [1, 0], [-1, -1], [-1, -1]]


def test_snorkel_functions_mix_with_others_when_the_classes_are_given():
    votes = apply([LONG, long_words], COMMENTS, classes=["ham", "spam"])

    assert votes.matrix.tolist() == [[1, 0], [1, -1], [-1, -1], [-1, -1]]
    with pytest.raises(ParameterError, match=r"'long' returns integers and others return labels"):
        apply([LONG, long_words], COMMENTS)


@pytest.mark.parametrize("answer", [2, -2, True, "spam", None, 0.0])
def test_a_snorkel_function_may_only_return_class_indices(answer):
    odd = SnorkelLike("odd", lambda x: answer)

    with pytest.raises(VoteError, match=r"'odd' returned .* on row 0; expected -1 to abstain or 0"):
        apply([odd], COMMENTS, classes=["ham", "spam"])


def test_snorkel_itself():
    snorkel = pytest.importorskip("snorkel.labeling", reason="Snorkel is not installed")
    from snorkel.preprocess import preprocessor

    @preprocessor(memoize=True)
    def size(x):
        x.size = len(x.text or "")
        return x

    @snorkel.labeling_function(pre=[size], resources={"at_least": 13})
    def long(x, at_least):
        return 1 if x.size >= at_least else -1

    votes = apply([long], COMMENTS, classes=["ham", "spam"])

    assert votes.matrix[:, 0].tolist() == [1, 1, -1, -1]


def test_an_interrupt_is_not_contained():
    with pytest.raises(KeyboardInterrupt):
        apply([_never], COMMENTS, classes=CLASSES)


def test_errors_can_be_raised_or_only_collected():
    with pytest.raises(VoteError, match=r"'loved' raised on 1 row, first on row 3: TypeError"):
        apply([loved], COMMENTS, classes=CLASSES, on_error="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert apply([loved], COMMENTS, classes=CLASSES, on_error="collect").n_rows == 4


def test_snorkel_functions_alone_number_their_classes():
    three = SnorkelLike("three", lambda x: np.int64(2))

    assert apply([LONG, LIKED], COMMENTS).classes == ("0", "1")
    assert apply([LONG, three], COMMENTS).classes == ("0", "1", "2")
