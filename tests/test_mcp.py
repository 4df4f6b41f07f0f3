"""The door for agents, driven by the protocol package's own client, in memory or over a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

import epoxy
from epoxy.agent.tools import LONGEST, MOST, READING, WRITING, Tools, _cut
from epoxy.cli import main
from epoxy.errors import ParameterError
from test_cli import LFS, write_plain_project

mcp = pytest.importorskip("mcp")

KEYWORDS = {"kind": "keywords", "label": "spam", "words": ["wow"]}
CODE = '@epoxy.labeling_function\ndef oh(row):\n    return "ham" if "oh" in row.text else None\n'
PYTHON = {"kind": "python", "code": CODE}


@pytest.fixture
def project(voted, tmp_path):
    return voted(write_plain_project, tmp_path)


def inside(project, *, write=False, name="tester"):
    """A client of a server in this process."""
    from epoxy.agent.serving import Server

    who = mcp.types.Implementation(name=name, version="1")
    return mcp.Client(Server(Tools(epoxy.Session.open(project), write=write)), client_info=who)


@asynccontextmanager
async def connected(project, *options, name="tester"):
    """A client of `epoxy mcp`, over a pipe."""
    path = os.pathsep.join(p for p in sys.path if p)
    command = ["-m", "epoxy", "mcp", str(project), *options]
    started = mcp.StdioServerParameters(
        command=sys.executable, args=command, env={"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    )
    who = mcp.types.Implementation(name=name, version="1")
    async with mcp.Client(started, client_info=who) as client:
        yield client


async def ask(client, tool, **arguments):
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content[0].text
    assert json.loads(answer.content[0].text) == answer.structured_content
    return answer.structured_content


async def refused(client, tool, **arguments) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer.structured_content
    return answer.content[0].text


def test_reading_is_free_and_without_write_nothing_is_kept(project):
    async def read():
        async with inside(project) as client:
            listed = {each.name: each for each in (await client.list_tools()).tools}
            assert set(listed) == {*READING, *WRITING}
            assert all(listed[each].annotations.read_only_hint for each in READING)
            assert not any(listed[each].annotations.read_only_hint for each in WRITING)

            report = await ask(client, "report")
            assert report["classes"] == ["ham", "spam"]
            assert sum(report["rows"].values()) == 120
            assert len(report["sources"]) == report["sources_total"] == 6
            assert report["may_write"] is False
            assert isinstance((await ask(client, "findings"))["findings"], list)
            functions = await ask(client, "functions", find="mon")
            assert functions["total"] == 1
            assert functions["functions"][0]["definition"]["words"] == ["money"]

            rows = (await ask(client, "next", n=4, purpose="score"))["rows"]
            assert [each["chosen"] for each in rows] == ["random"] * 4
            assert all("drawn at random" in each["reason"] for each in rows)
            found = await ask(client, "find_rows", find="wow", limit=3)
            assert found["total"] == 30
            assert len(found["rows"]) == 3
            assert all("wow" in each["text"] for each in found["rows"])
            why = await ask(client, "explain", row=found["rows"][0]["row"], limit=2)
            assert why["cells"]["text"] == found["rows"][0]["text"]
            assert len(why["voices"]) == 2
            assert why["voices_total"] > 2

            tried = await ask(client, "try_function", definition=KEYWORDS)
            assert tried["right"]["n"] == 5  # rows r0, r4 … r16 hold "wow" and are labelled ham
            assert tried["right"]["value"] == 0.0
            assert tried["right"]["high"] > 0
            assert all("wow" in each["text"] for each in tried["examples"])
            pattern = {"kind": "regex", "label": "ham", "pattern": "w.w"}
            tried = await ask(client, "try_function", definition=pattern)
            assert tried["right"]["value"] == 1.0
            like = {"kind": "like", "label": "spam", "rows": ["r1"], "radius": 0.1}
            assert (await ask(client, "try_function", definition=like))["rows"] > 0
            as_text = await ask(client, "try_function", definition=json.dumps(like))
            assert as_text["rows"] == (await ask(client, "try_function", definition=like))["rows"]

            for tool, given in {
                "add_function": {"definition": KEYWORDS, "name": "wow"},
                "change_function": {"source": "money", "definition": KEYWORDS},
                "set_radius": {"source": "money", "radius": 0.1},
                "switch": {"source": "money", "on": False},
                "label": {"row": 60, "label": "spam"},
                "undo": {},
            }.items():
                said = await refused(client, tool, **given)
                assert f"{tool} would change the project" in said
                assert "epoxy mcp DIR --write" in said
            said = await refused(client, "try_function", definition=PYTHON)
            assert "runs no Python of an agent's" in said
            assert (await ask(client, "history"))["total"] == 0

    asyncio.run(read())

    assert (project / "lfs.py").read_text() == LFS
    assert epoxy.Session.open(project).folder.log.records() == []


def test_wrong_arguments_are_refused_in_words_and_the_server_goes_on(project):
    async def wrong():
        session = epoxy.Session.open(project)
        number = {session.state.names.name(session.place(at))[1]: at for at in range(120)}
        async with inside(project, write=True) as client:
            for tool, given, words in (
                ("explain", {}, "row"),
                ("explain", {"row": "r12"}, f"has the number {number['r12']}"),
                ("explain", {"row": "12"}, 'by their number, "row" in the answers of next'),
                ("explain", {"row": None}, "row"),
                ("label", {"row": "r60", "label": "spam"}, f"has the number {number['r60']}"),
                ("label", {"row": True, "label": "spam"}, "row"),
                ("find_rows", {"like": "r12"}, f"has the number {number['r12']}"),
                ("switch", {"source": "money", "on": "yes"}, "on"),
                ("next", {"n": "many"}, "n"),
                ("try_function", {"definition": "wow"}, "definition"),
                ("explain", {"row": 5000}, "rows are numbered from 0 to 119"),
                ("explain", {"row": 3, "rwo": 4}, "rwo"),
                ("next", {"n": 0}, "n"),
                ("next", {"purpose": "fun"}, "purpose"),
                ("find_rows", {"filter": "voted"}, "is about one source"),
                ("find_rows", {"limit": 501}, "limit"),
                ("label", {"row": 60, "label": "egg"}, "'egg'"),
                ("switch", {"source": "nobody", "on": True}, "'nobody'"),
                ("set_radius", {"source": "money", "radius": "far"}, "radius"),
                ("set_radius", {"source": "money", "radius": -1}, "radius"),
                ("try_function", {"definition": {"kind": "words"}}, "words"),
                ("try_function", {"definition": {"kind": "keywords"}}, "label"),
                ("try_function", {"definition": PYTHON | {"code": "def f(:"}}, "line 1"),
                ("add_function", {"definition": KEYWORDS, "name": "money"}, "already"),
                ("change_function", {"source": "gone", "definition": KEYWORDS}, "'gone'"),
                ("undo", {}, "no edit to undo"),
            ):
                said = await refused(client, tool, **given)
                assert words in said, tool
                assert said.startswith(f"Error executing tool {tool}: ")
                assert "pydantic" not in said
            assert "no_such_tool" in await refused(client, "no_such_tool")
            assert (await ask(client, "history"))["total"] == 0

    asyncio.run(wrong())


def test_writes_are_kept_under_the_agents_name_and_can_be_undone(project):
    async def write():
        async with inside(project, write=True, name="Helper\n 2") as client:
            row = (await ask(client, "next", n=1, purpose="score"))["rows"][0]
            await ask(client, "label", row=row["row"], label="spam")
            again = (await ask(client, "next", n=1, purpose="score"))["rows"][0]
            assert again["row"] != row["row"]
            found = (await ask(client, "find_rows", find="poetry", limit=100))["rows"]
            picked = next(each for each in found if each["hand"] is None)
            await ask(client, "label", row=picked["row"], label="ham")

            slow = "@epoxy.labeling_function\ndef slow(row):\n    return 1 / 0\n"
            assert "line 3" in await refused(
                client, "try_function", definition=PYTHON | {"code": slow}
            )
            assert (await ask(client, "try_function", definition=PYTHON))["rows"] > 0
            assert "def oh" not in (project / "lfs.py").read_text()
            await ask(client, "add_function", definition=PYTHON, name="oh")
            await ask(client, "change_function", source="money", definition=KEYWORDS)
            await ask(client, "set_radius", source="oh", radius=0.2)
            await ask(client, "set_radius", source="song", radius=None)
            await ask(client, "switch", source="free", on=False)
            assert "def oh" in (project / "lfs.py").read_text()
            assert '"wow"' in (project / "lfs.py").read_text()
            for _ in range(4):
                await ask(client, "undo")
            told = await ask(client, "history")
            assert told["total"] == 11
            assert {each["who"].startswith("agent Helper 2 ") for each in told["edits"]} == {True}
            assert [each["undone"] for each in told["edits"]] == [False] * 4 + [True] * 4 + [
                False
            ] * 3
            return row, picked

    row, picked = asyncio.run(write())

    session = epoxy.Session.open(project)
    given = [session.state.records.of(session.place(each["row"])) for each in (row, picked)]
    assert [(r.by, r.chosen, session.classes[r.label]) for (r,) in given] == [
        ("agent Helper 2", "random", "spam"),
        ("agent Helper 2", "agent", "ham"),
    ]
    at, position = session.place(row["row"])
    assert session.state.workspace.labels.wrong[at][position] > 0  # fallible, not truth
    assert "def oh" in (project / "lfs.py").read_text()
    assert '"wow"' not in (project / "lfs.py").read_text()
    assert session.switched_off == ()
    assert session.radii["oh"] == "auto"


def test_two_clients_at_once_see_what_the_other_decided_and_lose_nothing(project):
    async def both():
        async with (
            connected(project, "--write", name="one") as one,
            connected(project, "--write", name="two") as two,
        ):
            await asyncio.gather(
                *(ask(one, "label", row=each, label="spam") for each in range(30, 35)),
                *(ask(two, "label", row=each, label="ham") for each in range(33, 38)),
            )
            await ask(one, "add_function", definition=KEYWORDS, name="wow")
            seen = await ask(two, "functions", find="wow")
            assert seen["functions"][0]["definition"]["words"] == ["wow"]
            await ask(two, "switch", source="wow", on=False)
            assert (await ask(one, "functions", find="wow"))["functions"][0]["on"] is False
            assert (await ask(two, "undo"))["what"] == "undo off wow"
            assert (await ask(one, "undo"))["what"] == "undo add wow"
            assert (await ask(two, "functions", find="wow"))["total"] == 0
            rows = [await ask(each, "find_rows", limit=100) for each in (one, two)]
            for mine, other in zip(*(each["rows"] for each in rows), strict=True):
                assert mine | {"p": 0} == other | {"p": 0}
                assert mine["p"] == pytest.approx(other["p"], abs=1e-4)
            return await ask(two, "history", limit=100)

    told = asyncio.run(both())

    assert told["total"] == 14  # following the other's function is no decision
    session = epoxy.Session.open(project)
    said = {each: session.state.records.of(session.place(each)) for each in range(30, 38)}
    by = {"agent one": range(30, 35), "agent two": range(33, 38)}
    assert {row: {r.by for r in records} for row, records in said.items()} == {
        row: {who for who, rows in by.items() if row in rows} for row in said
    }


NOISY = """
import os, sys
from epoxy.agent.tools import Tools
from epoxy.cli import main
from epoxy.session import Session

def noisy(function):
    def made(*given, **named):
        print("printed without an end", end="")
        os.write(1, b"written by a library\\n")
        return function(*given, **named)
    return made

Session.__init__ = noisy(Session.__init__)
Tools.call = noisy(Tools.call)
sys.exit(main(["mcp", sys.argv[1]]))
"""


def test_nothing_but_the_protocol_is_on_standard_output(project):
    (project / "lfs.py").write_text(LFS + '\nprint("from lfs.py")\n')
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "raw", "version": "1"}
    sent = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "report", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "undo", "arguments": {}}},
    ]
    with subprocess.Popen(
        [sys.executable, "-c", NOISY, str(project)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYTHONUNBUFFERED": ""},
        text=True,
    ) as server:
        for each in sent:
            server.stdin.write(json.dumps({"jsonrpc": "2.0"} | each) + "\n")
        server.stdin.flush()
        first = [server.stdout.readline() for _ in range(3)]
        rest, errors = server.communicate(timeout=120)

    answers = {said["id"]: said["result"] for said in map(json.loads, first)}
    assert sorted(answers) == [1, 2, 3]
    assert answers[2]["isError"] is False
    assert "epoxy mcp DIR --write" in answers[3]["content"][0]["text"]  # it was started without
    assert rest == ""
    assert errors.count("written by a library") == errors.count("printed without an end") == 3
    assert server.returncode == 0


def test_a_label_that_an_agent_confirmed_is_not_to_be_checked_again(project, monkeypatch):
    tools = Tools(epoxy.Session.open(project), write=True)
    asked = []
    monkeypatch.setattr(
        tools.session, "next", lambda n, purpose, without: asked.append(set(without)) or ()
    )

    for call, given in (
        ("next", {"purpose": "check"}),
        ("label", {"row": 60, "label": "spam"}),
        ("next", {"purpose": "check"}),
        ("undo", {}),
        ("next", {"purpose": "check"}),
    ):
        tools.call(call, given)

    assert asked == [set(), {60}, set()]


def test_a_file_saved_by_a_person_is_followed_and_one_that_does_not_run_is_told(project):
    tools = Tools(epoxy.Session.open(project))
    file = project / "lfs.py"

    file.write_text(LFS + '\nwow = epoxy.keywords("spam", "wow", name="wow")\n')
    assert tools.call("functions", {"find": "wow"})["total"] == 1

    file.write_text(LFS + "\nwow = (\n")
    report = tools.call("report", {})
    assert report["sources_total"] == 7  # as the last file that ran
    assert "SyntaxError" in report["notes"][-1]

    file.write_text(LFS)
    report = tools.call("report", {})
    assert report["sources_total"] == 6
    assert not any("SyntaxError" in each for each in report["notes"])
    assert tools.call("history", {})["total"] == 0


def test_long_answers_are_cut_and_say_so():
    long = {"names": [str(at) for at in range(MOST + 5)], "text": "a" * (LONGEST + 1), "few": [1]}

    cut = _cut({"inner": long})["inner"]

    assert cut["names"] == long["names"][:MOST]
    assert cut["names_total"] == MOST + 5
    assert cut["text"] == "a" * LONGEST + "…"
    assert set(cut) == {"names", "names_total", "text", "few"}


def test_the_command_refuses_json_and_says_what_to_install(project, capsys, monkeypatch):
    assert main(["mcp", str(project), "--json", "-"]) == 2
    assert "writes no result to read" in capsys.readouterr().err

    monkeypatch.delitem(sys.modules, "epoxy.agent.serving", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    assert main(["mcp", str(project)]) == 2
    assert "run: pip install 'epoxy-ws[agent]'" in capsys.readouterr().err


def test_tools_are_about_a_project_folder():
    votes = epoxy.Votes([[1, 1, -1], [-1, -1, 1], [0, -1, 0], [-1, 0, -1]] * 5, sources="abc")
    with pytest.raises(ParameterError, match="an agent's door is about a project folder"):
        Tools(
            epoxy.Session(epoxy.Split(votes, [[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0]] * 5))
        )
