"""Labeling functions in a process of their own: real processes, and limits of about a second."""

from __future__ import annotations

import json
import os
import py_compile
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import epoxy
from epoxy.errors import StoreError
from epoxy.functions.define import LabelingFunction
from epoxy.functions.fingerprint import fingerprint
from epoxy.running import Limits, Runner

CLASSES = ["ham", "spam"]
TEXTS = pa.table({"text": ["free money", "hello", None, "gift card\n", "İstanbul gift"]})
LIMITS = Limits(seconds=1.5, memory=2**29)
GOOD = 'good = epoxy.keywords("spam", "money", "gift", name="good")\n'
GOOD_COLUMN = [1, -1, -1, 1, 1]

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of a POSIX system")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps limits of memory")


@pytest.fixture
def runner(tmp_path):
    with Runner(tmp_path, Limits(memory=LIMITS.memory)) as made:
        yield made


@pytest.fixture
def hasty(tmp_path):
    """Of little time, for what never ends."""
    with Runner(tmp_path, LIMITS) as made:
        yield made


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """One process for many files, one after the other, as while a person writes."""
    with Runner(tmp_path_factory.mktemp("used"), LIMITS) as made:
        yield made


def write(folder: Path, text: str, name: str = "lfs.py") -> None:
    (folder / name).write_text(textwrap.dedent(text), "utf-8")


def function(body: str, name: str = "bad", options: str = "") -> str:
    inside = textwrap.indent(textwrap.dedent(body), "    ")
    return f"@epoxy.labeling_function{options}\ndef {name}(row):\n{inside}\n"


def vote(runner: Runner, table: pa.Table = TEXTS):
    return runner.vote(runner.load().names, table, CLASSES)


def wait_for(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # nobody may have asked for its exit code, where nobody waits for orphans
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


# loading


def test_loading_names_the_functions_in_the_order_of_the_file(runner):
    write(runner.folder, "import epoxy\n" + function("return None", "zebra") + GOOD)

    loaded = runner.load()

    assert loaded.names == ("zebra", "good")
    assert [each.labels for each in loaded.functions] == [(), ("spam",)]


def test_fingerprints_are_those_of_this_process(runner):
    write(runner.folder, "import epoxy\n" + GOOD)

    here = fingerprint(epoxy.keywords("spam", "money", "gift", name="good"))

    assert runner.load().fingerprints == {"good": here}


def test_what_cannot_be_taken_apart_has_no_fingerprint_and_votes(runner):
    shy = "class Shy:\n    def __reduce_ex__(self, n): raise RuntimeError\nshy = Shy()\n"
    write(runner.folder, "import epoxy\n" + shy + function("return 'ham' if shy else None"))

    assert runner.load().fingerprints == {"bad": None}
    assert vote(runner).columns["bad"].tolist() == [0] * 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import epoxy\n\nx = 1 / 0\n", r"lfs.py fails on line 3: ZeroDivisionError: division"),
        ("def broken(:\n", r"lfs.py fails on line 1: SyntaxError"),
        ("import epoxy\n", r"lfs.py defines no labeling functions; decorate one"),
        ("import epoxy\n\nepoxy.keywords('a')\n", r"fails on line 3: keywords needs at least one"),
        (
            "import sys\nsys.exit(0)\n",
            r"fails on line 2: it ends the program \(SystemExit: 0\); ta",
        ),
        ("import os\nos._exit(0)\n", r"lfs.py ended its process with exit code 0 while it was run"),
        ("while True: pass\n", r"lfs.py was still running after 1.5 s and was ended; move slow"),
        ("raise KeyboardInterrupt\n", r"fails on line 1: KeyboardInterrupt"),
        ("import nowhere_to_be_found\n", r"fails on line 1: ModuleNotFoundError"),
        (f"import epoxy\n{GOOD}{GOOD.replace('good =', 'b =')}", r"more than one .* \['good'\]"),
        ("lfs = [3]\n", r"a labeling function is made by @labeling_function"),
        (
            "class Mute(Exception):\n    def __str__(self): raise self\nraise Mute\n",
            r"fails on line 3: Mute \(its message cannot be shown\)",
        ),
    ],
)
def test_a_file_that_does_not_load_says_why_and_a_corrected_one_works_at_once(used, text, message):
    write(used.folder, text)

    with pytest.raises(StoreError, match=message):
        used.load()

    write(used.folder, "import epoxy\n" + GOOD)
    assert used.changed()
    assert vote(used).columns["good"].tolist() == GOOD_COLUMN
    assert not used.changed()


def test_a_folder_without_functions_says_so(runner):
    with pytest.raises(StoreError, match=r"has no lfs.py; write your labeling functions there"):
        runner.load()


@posix
def test_a_file_that_crashes_python_says_so(runner):
    write(runner.folder, "import ctypes\nctypes.string_at(0)\n")

    with pytest.raises(StoreError, match=r"lfs.py ended its process by SIGSEGV"):
        runner.load()


@linux
def test_a_file_that_takes_too_much_memory_says_so(runner):
    write(runner.folder, "x = bytearray(2 ** 33)\n")

    with pytest.raises(StoreError, match=r"lfs.py fails on line 1: MemoryError"):
        runner.load()


# modules of the folder


def test_an_edited_helper_is_imported_again_and_changes_who_can_see_it(runner):
    write(runner.folder, "WORDS = ['money']\n", "words.py")
    code = 'return "spam" if row.text and any(word in row.text for word in words.WORDS) else None'
    write(runner.folder, "import epoxy\nimport words\n" + GOOD + function(code, "listed"))
    before, first = runner.load(), vote(runner)

    write(runner.folder, "WORDS = ['hello']\n", "words.py")

    assert runner.changed()
    after, second = runner.load(), vote(runner)
    assert first.columns["listed"].tolist() == [1, -1, -1, -1, -1]
    assert second.columns["listed"].tolist() == [-1, 1, -1, -1, -1]
    assert before.fingerprints["listed"] != after.fingerprints["listed"]
    assert before.fingerprints["good"] == after.fingerprints["good"]
    assert {path.name for path in after.files} == {"lfs.py", "words.py"}


def test_a_helper_of_a_helper_in_a_folder_without_init_is_imported_again(runner):
    (runner.folder / "helpers_apart").mkdir()
    write(runner.folder, "WORD = 'money'\n", "helpers_apart/inner.py")
    write(runner.folder, "from helpers_apart import inner\n", "outer.py")
    code = "return 'spam' if row.text and outer.inner.WORD in row.text else None"
    write(runner.folder, "import epoxy\nimport outer\n" + function(code, "deep"))
    before = vote(runner).columns["deep"].tolist()

    write(runner.folder, "WORD = 'hello'\n", "helpers_apart/inner.py")

    assert runner.changed()
    assert before == [1, -1, -1, -1, -1]
    assert vote(runner).columns["deep"].tolist() == [-1, 1, -1, -1, -1]


def test_two_saves_within_a_second_are_two_however_bytecode_is_kept(runner):
    helper = runner.folder / "words.py"
    write(runner.folder, "WORD = 'money'\n", "words.py")
    os.utime(helper, (1_000_000_000, 1_000_000_000))
    py_compile.compile(str(helper))
    code = "return 'spam' if row.text and words.WORD in row.text else None"
    write(runner.folder, "import epoxy\nimport words\n" + function(code, "a"))
    first = vote(runner).columns["a"].tolist()

    write(runner.folder, "WORD = 'hello'\n", "words.py")
    os.utime(helper, (1_000_000_000, 1_000_000_000))

    assert first == [1, -1, -1, -1, -1]
    assert vote(runner).columns["a"].tolist() == [-1, 1, -1, -1, -1]
    assert len(list((runner.folder / "__pycache__").iterdir())) == 1


def test_an_error_in_a_helper_names_the_helper_and_waits_for_it(runner):
    write(runner.folder, "\n\nWORDS = [\n", "words.py")
    write(runner.folder, "import epoxy\nimport words\n" + GOOD)

    with pytest.raises(StoreError, match=r"words.py fails on line 3: SyntaxError"):
        runner.load()

    write(runner.folder, "WORDS = []\n", "words.py")
    assert runner.changed()
    assert runner.load().names == ("good",)


def test_a_helper_that_is_still_to_be_written_is_waited_for(runner):
    write(runner.folder, "import epoxy\nimport words\n" + GOOD)
    with pytest.raises(StoreError, match="No module named 'words'"):
        runner.load()
    assert not runner.changed()

    write(runner.folder, "", "words.py")

    assert runner.changed()
    assert runner.load().names == ("good",)


# voting


def test_votes_are_those_of_apply_for_functions_of_every_kind(runner):
    text = """
        import re
        import epoxy
        word = epoxy.keywords("spam", "money", "GIFT", whole_words=True)
        end = epoxy.regex("spam", r"card$")
        dotted = epoxy.regex("ham", "i", flags=re.I)
        said = epoxy.from_column("old", {1: "spam", 0: "ham"})

        @epoxy.labeling_function(batch=True, column="text")
        def short(texts):
            return ["ham" if n is not None and n < 8 else None for n in texts.str.len_chars()]

        @epoxy.labeling_function
        def fails_on_missing(row):
            return "ham" if len(row.text) > 8 else None
    """
    write(runner.folder, text)
    space: dict[str, object] = {}
    exec(textwrap.dedent(text), space)
    functions = [f for f in space.values() if isinstance(f, LabelingFunction)]
    table = TEXTS.append_column("old", pa.array([1, 0, None, 1, 0]))

    here = epoxy.apply_report(functions, table, classes=CLASSES)
    there = vote(runner, table)

    assert np.array_equal(np.column_stack(list(there.columns.values())), here.votes.matrix)
    assert [(f.name, f.rows, f.error) for f in there.failures] == [
        (f.name, f.rows, f.error) for f in here.failures
    ]


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("os._exit(0)", "crashed", r"'bad' failed on row 0: it ended its process with exit code 0"),
        ("while row.text == 'hello': pass", "slow", r"failed on row 1: it was still running after"),
        ("while True:\n    try: sys.exit()\n    except BaseException: pass", "slow", "row 0"),
        ("re.match('(a*)*b', 'a' * 40)", "slow", "row 0"),
        ("return 'spma'", "wrong", r"'bad' returned 'spma' on row 0; expected one of \['ham'"),
        ("return Odd()", "crashed", r"labeling function 'bad' failed: RuntimeError: no repr"),
        pytest.param("os.kill(os.getpid(), 11)", "crashed", "by SIGSEGV; correct it", marks=posix),
        pytest.param(
            "for fd in os.listdir('/proc/self/fd'):\n"
            "    if os.path.exists(way := f'/proc/self/fd/{fd}') and 'socket' in os.readlink(way):\n"
            "        os.write(int(fd), b'abcd' * 9)",
            *("crashed", "it ended its process by SIGKILL|it wrote into the pipe"),
            marks=linux,
        ),
        pytest.param("x = bytearray(2 ** 33)", "large", "more than 0.5 GiB of mem", marks=linux),
    ],
)
def test_a_function_that_cannot_be_asked_costs_its_own_column_only(hasty, body, kind, message):
    odd = "class Odd:\n    def __repr__(self): raise RuntimeError('no repr')\n"
    start = "import epoxy, os, re, sys\n" + odd
    write(hasty.folder, start + GOOD + function(body) + GOOD.replace("good", "last"))

    found = vote(hasty)

    assert {name: column.tolist() for name, column in found.columns.items()} == {
        "good": GOOD_COLUMN,
        "last": GOOD_COLUMN,
    }
    assert [failure.kind for failure in found.failures] == [kind]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(str(found.failures[0]))
    write(hasty.folder, start + GOOD + function("return 'ham'"))
    assert vote(hasty).columns["bad"].tolist() == [0] * 5


@linux
def test_memory_taken_little_by_little_has_an_end(tmp_path):
    body = "kept = []\nwhile True: kept.append(bytearray(2 ** 22))"
    write(tmp_path, "import epoxy\n" + function(body) + GOOD)

    with Runner(tmp_path, Limits(seconds=30.0, memory=2**27)) as runner:
        found = vote(runner)

    assert [failure.kind for failure in found.failures] == ["large"]
    assert found.columns["good"].tolist() == GOOD_COLUMN


@pytest.mark.parametrize("body", ["sys.exit(3)", "raise SystemExit(3)", "exit(3)"])
def test_rows_on_which_a_function_ends_the_program_abstain(runner, body):
    code = f"if row.text == 'hello': {body}\nreturn 'ham'"
    write(runner.folder, "import epoxy, sys\n" + function(code))

    found = vote(runner)

    assert found.columns["bad"].tolist() == [0, -1, 0, 0, 0]
    assert str(found.failures[0]) == (
        "labeling function 'bad' raised on 1 row, first on row 1: SystemExit: 3"
    )


def test_progress_counts_every_vote_and_never_goes_back(runner):
    seen = []
    write(runner.folder, "import epoxy\n" + function("return 'ham'") + GOOD)
    table = pa.table({"text": ["a"] * 500})

    runner.vote(runner.load().names, table, CLASSES, lambda *each: seen.append(each))

    assert seen == sorted(seen)
    assert seen[-1] == (1000, 1000)


def test_a_file_changed_between_its_loading_and_a_new_start_is_not_mixed_up(runner):
    write(runner.folder, "import epoxy\n" + GOOD)
    names = runner.load().names
    runner.close()
    write(runner.folder, "import epoxy\n" + GOOD.replace("money", "hello"))

    with pytest.raises(StoreError, match="was changed while its functions voted; load it again"):
        runner.vote(names, TEXTS, CLASSES)

    assert runner.changed()
    assert vote(runner).columns["good"].tolist() == [-1, 1, -1, 1, 1]


# the process


def test_a_model_is_loaded_once_per_process_and_from_model_works(runner):
    write(
        runner.folder,
        """
        import functools
        import epoxy
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression().fit([[0], [1], [9], [10]], ["ham", "ham", "spam", "spam"])
        links = epoxy.from_model(model, ["links"], confidence=0.6, name="links")

        @functools.cache
        def slow_model():
            with open(__file__ + ".log", "a") as file:
                file.write("loaded ")
            return {2: "ham", 12: "spam"}

        @epoxy.labeling_function
        def lazy(row):
            return slow_model()[row.links]
        """,
    )
    runner.limits = Limits(seconds=60)
    table = pa.table({"links": [12, 2]})

    first = vote(runner, table)
    second = runner.vote(["lazy"], table, CLASSES)

    assert first.columns["links"].tolist() == [1, 0]
    assert first.columns["lazy"].tolist() == second.columns["lazy"].tolist() == [1, 0]
    assert (runner.folder / "lfs.py.log").read_text() == "loaded "


def script(folder: Path, body: str, seconds: float = 60.0) -> subprocess.Popen[str]:
    """A program without `if __name__ == "__main__"`."""
    start = f"""
        import json, os, sys
        import pyarrow as pa, signal
        from epoxy.running import Limits, Runner

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        runner = Runner({str(folder)!r}, Limits(seconds={seconds}))
        table = pa.table({{"text": ["free money"]}})
    """
    write(folder, textwrap.dedent(start) + textwrap.dedent(body), "program.py")
    return subprocess.Popen(
        [sys.executable, str(folder / "program.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_what_functions_print_never_mixes_with_the_output_of_a_program(tmp_path):
    code = "print('hello')\nos.write(1, b'from below')\nreturn 'ham'"
    write(tmp_path, "import epoxy, os\nprint('loading')\n" + function(code, "loud"))
    program = script(
        tmp_path,
        """
        found = runner.vote(runner.load().names, table, ["ham", "spam"])
        print(json.dumps({name: column.tolist() for name, column in found.columns.items()}))
        """,
    )

    out, err = program.communicate(timeout=60)

    assert json.loads(out) == {"loud": [0]}
    assert [said in err for said in ("loading", "hello", "from below")] == [True] * 3


ENDLESS = (
    "import epoxy, os\n"
    "def tell():\n"
    "    path = os.path.join(os.path.dirname(__file__), 'pid')\n"
    "    with open(path + '~', 'w') as file: file.write(str(os.getpid()))\n"
    "    os.replace(path + '~', path)\n"
) + function("tell()\nwhile True: pass", "endless")


@posix
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_the_process_never_outlives_the_program_that_started_it(tmp_path, sent):
    write(tmp_path, ENDLESS)
    program = script(tmp_path, "runner.vote(['endless'], table, ['ham', 'spam'])")
    wait_for((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())

    program.send_signal(sent)
    out, err = program.communicate(timeout=60)

    wait_for(lambda: is_gone(pid))
    assert out == ""
    assert err.count("Traceback") == (sent == signal.SIGINT)
    assert ("KeyboardInterrupt" in err) == (sent == signal.SIGINT)


@posix
def test_a_function_that_lets_no_thread_run_ends_soon_after_its_program(tmp_path):
    greedy = ENDLESS.replace("while True: pass", "__import__('re').match('(a*)*b', 'a' * 60)")
    write(tmp_path, greedy)
    program = script(tmp_path, "runner.vote(['endless'], table, ['ham', 'spam'])", seconds=1.5)
    wait_for((tmp_path / "pid").exists)

    program.kill()
    program.communicate(timeout=60)

    wait_for(lambda: is_gone(int((tmp_path / "pid").read_text())))


@posix
def test_closing_ends_the_process_and_the_next_question_starts_another(runner):
    write(
        runner.folder,
        "import epoxy, os\n" + GOOD + "print(os.getpid(), file=open(__file__ + '.pid', 'w'))",
    )
    place = runner.folder / "lfs.py.pid"
    runner.load()
    pid = int(place.read_text())

    runner.close()

    assert is_gone(pid)
    assert runner.vote(["good"], TEXTS, CLASSES).columns["good"].tolist() == GOOD_COLUMN
    assert int(place.read_text()) != pid


@posix
def test_a_process_that_a_function_forked_neither_hides_its_end_nor_stays(tmp_path):
    body = "if os.fork(): os._exit(3)\nopen(__file__ + '.pid', 'w').write(str(os.getpid()))\n"
    code = function(body + "time.sleep(600)") + GOOD
    write(tmp_path, "import epoxy, os, time\n" + code)

    with Runner(tmp_path) as runner:
        found = vote(runner)

    assert "exit code 3" in str(found.failures[0])
    assert found.columns["good"].tolist() == GOOD_COLUMN
    wait_for(lambda: is_gone(int((tmp_path / "lfs.py.pid").read_text())))


def test_starting_imports_nothing_heavy(runner):
    code = """
words = epoxy.keywords("spam", "hello")
pattern = epoxy.regex("spam", r"he(?=l)|\\bworld$")

@epoxy.labeling_function
def heavy(row):
    return " ".join({"sklearn", "numba", "scipy", "torch", "pandas"} & set(sys.modules)) or None
"""
    write(runner.folder, "import epoxy, sys\n" + code)

    assert vote(runner).columns["heavy"].tolist() == [-1] * 5


def test_a_full_temporary_folder_is_said(runner, monkeypatch) -> None:
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)

    with pytest.raises(StoreError, match=r"No space left .*TMPDIR"):
        runner.load()


def test_functions_without_the_decorator_are_named_unless_others_use_them(runner) -> None:
    plain = "def where(row): return 'ham'\ndef size(row): return len(row.text)\n"
    write(runner.folder, plain)
    with pytest.raises(StoreError, match=r"decorate where, size with @epoxy.labeling_function"):
        runner.load()

    write(runner.folder, "import epoxy\n" + plain + function("return size(row)"))
    assert runner.load().undecorated == ("where",)
