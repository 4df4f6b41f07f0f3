"""The documentation is run: code top to bottom, commands through the parser, links, generated pages.

In a page, ```python blocks share one namespace and one empty working folder. An ```output block
holds what the python block above it prints; in a ```console block, lines after a command hold what the
command prints ("..." stands for anything). Code that is only to be read is ```text.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from msgspec import structs

import epoxy
from epoxy.cli import main
from epoxy.cli.main import command as command_line
from epoxy.cli.main import spread
from epoxy.project.settings import KEYS, LABEL_MODELS, MODELS, Project

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EVERY = sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
FOR_USERS = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
GENERATED = ("reference/commands.md", "reference/api.md")
NOT_RUN = {
    "demo": "takes seconds, and tests/test_cli.py runs it",
    "synthetics": "takes seconds, and tests/test_cli.py runs it",
    "bench": "takes minutes",
    "watch": "ends with Ctrl-C",
    "studio": "ends with Ctrl-C",
}
RUN_COMMANDS_OF = ("quickstart.md",)  # other pages show commands on files of the reader's


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    kind: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    found = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in found]


def commands_in(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown under it."""
    joined = re.sub(r"\\\n\s*", " ", block.text)
    found = re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", joined, re.MULTILINE)
    return [(command, output.strip()) for command, output in found]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def generated_pages() -> set[Path]:
    return {DOCS / name for name in GENERATED}


def somebody_wrote() -> str:
    """All pages for users but the generated ones."""
    written = [page for page in FOR_USERS if page not in generated_pages()]
    return "\n".join(page.read_text("utf-8") for page in written)


def known_commands() -> set[str]:
    return set(command_line().commands)


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_page(text: str, name: str, *, run_commands: bool = True) -> None:
    """Run a page's code and commands in order and compare what they print with what it says."""
    names = {"__name__": "page"}
    printed = ""
    for block in blocks(text):
        where = f"{name}, line {block.line}"
        if block.kind == "python":
            out = io.StringIO()
            # blank lines first, so that a traceback names the line of the page
            code = compile("\n" * (block.line - 1) + block.text, name, "exec")
            with contextlib.redirect_stdout(out):
                exec(code, names)
            printed = out.getvalue()
        elif block.kind == "output":
            check_output(block.text, printed, where)
        elif block.kind == "console":
            for command, expected in commands_in(block):
                run_command(command, expected, where, run=run_commands)


def run_command(command: str, expected: str, where: str, *, run: bool) -> None:
    words = shlex.split(command, comments=True)
    if words[:1] != ["epoxy"]:
        return
    assert len(words) > 1, f"{where}: a command is missing after epoxy"
    assert words[1] in known_commands() | {"--version", "--help"}, f"{where}: no {command!r}"
    if words[1].startswith("--"):
        return
    line = command_line()
    name, command_, rest = line.resolve_command(
        line.make_context("epoxy", words[1:]), spread(words[1:])
    )
    assert command_ is not None
    command_.make_context(name, rest)  # refuses what the command does not take
    if not run or words[1] in NOT_RUN:
        return
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(words[1:])
    if expected:
        check_output(expected, out.getvalue(), f"{where}, {command!r}")
    else:
        assert code == 0, f"{where}: {command!r} ended with {code}: {out.getvalue()}"


def check_output(expected: str, printed: str, where: str) -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(
        expected.strip() + "\n", printed.strip() + "\n", options
    )
    assert same, f"{where} shows\n{expected}\nand what is printed is\n{printed}"


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```\s*$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that headings of a page get."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield target


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, and no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def refuse(*_: object) -> None:
        raise OSError("the documentation must run without a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("page", FOR_USERS, ids=named)
def test_a_page_runs_as_printed(page):
    run_page(page.read_text("utf-8"), page.name, run_commands=page.name in RUN_COMMANDS_OF)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1 + 1)\n```\n\n```output\n3\n```\n", "shows"),
        ("```console\n$ epoxy bake\n```\n", "no 'epoxy bake'"),
        ("```console\n$ epoxy label nowhere\n```\n", "nowhere is not a project folder"),
        ("```console\n$ epoxy label nowhere\nall is well\n```\n", "all is well"),
    ],
)
def test_a_page_that_says_something_false_is_found(text, message):
    with pytest.raises(AssertionError, match=message):
        run_page(text, "false.md")


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_fresh(name):
    page = DOCS / name

    assert page.read_text("utf-8") == generator().PAGES[name](), "run: python docs/generate.py"


def test_every_public_name_is_explained_in_a_page_somebody_wrote():
    written = somebody_wrote()

    missing = [
        name for name in epoxy.__all__ if not re.search(rf"epoxy\.{name}\b|`{name}\b", written)
    ]

    assert missing == []


def test_every_public_name_has_a_summary():
    first = generator().first_sentence

    missing = [name for name in epoxy.__all__ if not first(getattr(epoxy, name), "epoxy", name)]

    assert missing == []


def test_every_command_is_explained_in_a_page_somebody_wrote():
    written = somebody_wrote()

    assert [name for name in sorted(known_commands()) if f"epoxy {name}" not in written] == []


@pytest.mark.parametrize("page", FOR_USERS, ids=named)
def test_every_command_that_a_page_names_exists(page):
    named = re.findall(r"`epoxy ([a-z]+)", prose(page))

    assert sorted(set(named) - known_commands()) == []


@pytest.mark.parametrize("page", EVERY, ids=named)
def test_links_between_pages_lead_somewhere(page):
    assert list(broken_links(page)) == []


def settings() -> dict[tuple[str, str], tuple[str, str]]:
    """Default and readers of every key of epoxy.toml, by section and key, as the page has them."""
    page = (DOCS / "reference" / "project.md").read_text("utf-8")
    lines = re.findall(r"^\| `\[(\w+)\]` \| `(\w+)` \| .+ \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert len(lines) == page.count("\n| `["), "a line of the table has other cells"
    return {(section, key): (default, readers) for section, key, default, readers in lines}


def project_with(section: str = "", key: str = "", value: str = "") -> Project:
    sections = {"rows": 'file = "rows.csv"\n', "classes": 'names = ["a", "b"]\n'}
    if section:
        sections[section] = f"{sections.get(section, '')}{key} = {value}\n"
    return Project.of(Path("p"), "\n".join(f"[{name}]\n{it}" for name, it in sections.items()))


@pytest.mark.parametrize("page", FOR_USERS, ids=named)
def test_settings_shown_in_a_page_are_read(page):
    for block in blocks(page.read_text("utf-8")):
        if block.kind == "toml" and "[rows]" in block.text:
            Project.of(Path("p"), block.text)


def test_the_page_of_a_project_has_every_key_and_no_other():
    known = {(section, key) for section, keys in KEYS.items() for key in keys}

    assert set(settings()) == known | {("labellers", "NAME")}


@pytest.mark.parametrize("key", sorted(KEYS["model"]))
def test_the_page_of_a_project_says_which_models_read_a_key(key):
    models = {kind for kind, keys in MODELS.items() if key in keys}
    reading = {name for name, keys in LABEL_MODELS.items() if key in keys}
    some = reading if reading != set(LABEL_MODELS) else set()

    readers = settings()["model", key][1]

    assert set(re.findall(r"`([^`]+)`", readers)) == models | some
    assert (readers == "both") == (key == "kind")


def test_a_key_set_to_the_default_that_the_page_has_changes_nothing():
    told = {
        place: re.match(r'`("\w+"|\d+)`', default) for place, (default, _) in settings().items()
    }
    plain = project_with()

    checked = [place for place, found in told.items() if found]
    made = [project_with(*place, found[1]) for place, found in told.items() if found]

    assert len(checked) == 8
    for each in made:
        assert repr(each.make_model()) == repr(plain.make_model())
        assert structs.replace(each, **dict.fromkeys(each.options)) == plain


def test_the_changelog_ends_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")

    released = re.findall(r"^## \[(\d[^\]]*)\]", text, re.MULTILINE)

    assert released[:1] == [epoxy.__version__]


def test_the_book_stays_short():
    words = {page: len(page.read_text("utf-8").split()) for page in FOR_USERS}
    words[ROOT / "DESIGN.md"] = len((ROOT / "DESIGN.md").read_text("utf-8").split())

    assert sum(words.values()) <= 38_000
    assert [named(page) for page in set(words) - generated_pages() if words[page] > 3_500] == []
