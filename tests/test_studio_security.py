"""Attacks on a studio: each is refused, and the server goes on answering."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")
pytest.importorskip("watchfiles")
pytest.importorskip("httpx")

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import epoxy
from epoxy.errors import ParameterError, StoreError
from epoxy.studio import security
from epoxy.studio.frames import parsed
from epoxy.studio.openapi import document
from epoxy.studio.serving import Studio
from epoxy.studio.verbs import VERBS, read
from studio_client import Caller, Tab, messages, serving


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = messages(tmp_path_factory.mktemp("guarded"))
    session = epoxy.Session.open(folder)
    with serving(session) as made:
        yield made


@pytest.fixture
def call(studio):
    """The owner; after each attack the server still answers."""
    with Caller(studio.port, studio.token) as made:
        yield made
        assert made("state")["rows"]["total"] == 160


def raw(studio, text: str | bytes, wait: float = 10.0) -> bytes:
    """Send bytes as they are, and read what comes until the other side ends."""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=wait) as sent:
        sent.sendall(text if isinstance(text, bytes) else text.encode())
        found = b""
        try:
            while part := sent.recv(65536):
                found += part
                if b"\r\n\r\n" in found:
                    break
        except OSError:
            pass
        return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def get(studio, path: str = "/api/openapi.json", **headers: str) -> bytes:
    told = {"Host": f"127.0.0.1:{studio.port}", "Authorization": f"Bearer {studio.token}"}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value)
    return raw(studio, f"GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")


def test_an_address_opens_the_page_once_and_then_only_its_cookie_is_good(call, studio):
    token = studio.keys.new()
    bearer = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{call.origin}/api/openapi.json", headers=bearer).status_code == 200
    with httpx.Client(base_url=call.origin) as browser:
        first = browser.get(f"/?token={token}")
        page = browser.get("/api/openapi.json")
        again = browser.get(f"/?token={token}")  # by whoever has the cookie

    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"epoxy_{studio.port}=")
    assert token not in cookie
    assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.lower().split("; "))
    assert page.status_code == 200
    assert again.status_code in (200, 503)
    stolen = [
        httpx.get(f"{call.origin}/?token={token}"),
        httpx.get(f"{call.origin}/api/openapi.json", headers=bearer),
        httpx.get(call.origin, headers={"Cookie": f"epoxy_{studio.port}={token}"}),
    ]
    assert {each.status_code for each in stolen} == {401}
    assert ".epoxy/studio.html" in stolen[0].text


def test_a_file_of_the_owner_leads_on_and_always_has_a_new_token(call, studio):
    told = []
    for _ in range(2):
        assert studio.opening.stat().st_mode & 0o777 == 0o600
        (address, _) = re.findall(r'http://[^"]+', studio.opening.read_text())
        told.append(address)
        assert (
            httpx.get(
                address, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
            ).status_code
            == 303
        )

    assert told[0] != told[1]
    assert studio.token not in told[0] + told[1]
    folder = studio.room.session.folder.project.cache
    assert all(not each.stat().st_mode & 0o077 for each in (folder, *folder.rglob("*")))


def test_every_answer_carries_the_policy(call, studio):
    answers = [call.http.get(path) for path in ("/", "/api/openapi.json", "/nowhere")]
    answers.append(httpx.get(f"{call.origin}/"))

    for answer in answers:
        for name, value in security.HEADERS.items():
            assert answer.headers[name] == value
    assert "unsafe" not in security.HEADERS["content-security-policy"]
    assert len(studio.token) >= 43  # 256 bits in base 64


@pytest.mark.parametrize("token", [None, "wrong", "%C3%A9", "x" * 5000])
def test_without_the_token_nothing_is_answered(call, token):
    headers = {"Origin": call.origin}
    if token is not None:
        headers["Cookie"] = f"epoxy_1=x; {call.origin.rpartition(':')[2]}={token}"
        headers["Authorization"] = f"Bearer {token}"
    with httpx.Client(base_url=call.origin, headers=headers) as stranger:
        answers = [
            stranger.get("/"),
            stranger.get("/", params={"token": token or ""}),
            stranger.get("/api/image/1"),
            stranger.post("/api/state", json={}),
        ]

    assert {each.status_code for each in answers} == {401}
    assert all("set-cookie" not in each.headers for each in answers)


def test_whoever_is_refused_reads_why_however_late_the_body_comes(call, studio):
    body = b" " * (1 << 20)  # more than the server takes before it is asked to
    head = f"POST /api/code HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nOrigin: {call.origin}\r\n"
    with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as sent:
        sent.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        answer = sent.recv(4096)
        sent.sendall(body)
        while part := sent.recv(4096):  # an end, and no reset
            answer += part

    assert status(answer) == 401
    assert b"open the address epoxy studio printed" in answer


def test_whoever_is_refused_is_not_waited_for(call, studio, monkeypatch):
    monkeypatch.setattr(security, "LINGER", 0.1)
    head = f"POST /api/code HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nOrigin: {call.origin}\r\n"
    with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as sent:
        sent.sendall(f"{head}Content-Length: 5\r\n\r\n{{".encode())
        answer = b""
        with _ended():
            while part := sent.recv(4096):
                answer += part

    assert status(answer) == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil:{port}",
        "",
    ],
)
def test_another_name_for_this_machine_is_refused(call, studio, host):
    answer = get(studio, Host=host.format(port=studio.port))

    assert status(answer) in (400, 403)


def test_the_names_of_this_machine_are_ours(call, studio):
    for name in ("127.0.0.1", "localhost", "[::1]"):
        assert status(get(studio, Host=f"{name}:{studio.port}")) == 200
    twice = f"127.0.0.1:{studio.port}\r\nHost: evil.example"
    assert status(get(studio, Host=twice)) in (400, 403)


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1"])
def test_writes_of_another_origin_are_refused(call, origin):
    headers = {name: value for name, value in call.headers.items() if name != "Origin"}
    headers |= {} if origin is None else {"Origin": origin}

    answer = httpx.post(f"{call.origin}/api/undo", json={}, headers=headers)

    assert answer.status_code == 403


def test_another_site_is_refused_but_for_a_link_to_the_page(call, studio):
    told = {"Sec_Fetch_Site": "cross-site"}

    assert status(get(studio, **told)) == 403
    assert status(get(studio, "/", **told, Sec_Fetch_Mode="no-cors")) == 403
    framed = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}
    assert status(get(studio, "/", **told, **framed)) == 403
    link = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert status(get(studio, "/", **told, **link)) in (200, 503)
    assert status(get(studio, "/api/image/1", **told, **link)) == 403


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ("http://evil.example", {"Cookie": "epoxy_{port}={token}"}),  # a browser sends it along
        (None, {"Cookie": "epoxy_{port}={token}"}),
        ("null", {"Authorization": "Bearer {token}"}),
        ("same", {"Authorization": "Bearer {token}", "Host": "evil.example"}),
        ("same", {"Authorization": "Bearer {token}", "Sec-Fetch-Site": "cross-site"}),
        ("same", {"Authorization": "Bearer wrong"}),
        ("same", {}),
    ],
)
def test_a_websocket_is_refused_before_it_is_accepted(call, studio, origin, told):
    known = {"port": studio.port, "token": studio.token}
    headers = {name: value.format(**known) for name, value in told.items()}
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(
            call.origin.replace("http", "ws") + "/api/live",
            origin=call.origin if origin == "same" else origin,
            additional_headers=headers,
        ),
    ):
        pass

    assert refused.value.response.status_code in (400, 403)
    assert studio.room.pages == []


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/assets/../../security.py",
        "/assets/%2e%2e/%2e%2e/security.py",
        "//etc/passwd",
        "/static/index.html",
        "/api/export/../lfs.py",
        "/api/export/..%2f..%2flfs.py",
        "/api/export/%2fetc%2fpasswd",
        "/api/export/labels.csv%00.parquet",
        "/api/export/epoxy.toml",
        "/api/image/../1",
        "/api/image/-1",
        "/api/image/1e3",
        "/api/image/١",
        "/api/image/99999999999999999999",
        "/api/image/1?size=100000",
        "/api/image/1?size=x",
        "/api/state",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(call, studio, path):
    answer = get(studio, path.encode().decode("latin-1"))

    assert status(answer) in (400, 404, 405)


def test_a_body_that_is_too_large_is_refused_at_once(call, studio):
    head = (
        f"POST /api/rows HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nOrigin: {call.origin}\r\n"
        f"Authorization: Bearer {studio.token}\r\nContent-Type: application/json\r\n"
    )

    declared = raw(studio, head + "Content-Length: 100000000\r\n\r\n")
    with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as sent:
        sent.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
        answer, part = b"", b"%x\r\n" % (1 << 20) + b" " * (1 << 20) + b"\r\n"
        try:
            for _ in range(100):  # 100 MB that nobody announced
                sent.sendall(part)
            answer = sent.recv(4096)
        except OSError:
            answer = answer or b"HTTP/1.1 413 "

    assert status(declared) == 413
    assert status(answer) == 413


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'"x"', b"\xff\xfe", b'{"row": NaN}', b'{"row": 1e999}', b"[" * 100_000],
)
def test_json_that_is_none_is_refused_in_words(call, body):
    answer = call.http.post("/api/why", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 400
    assert answer.json()["message"]


def test_writes_are_json_and_say_so(call):
    answer = call.http.post("/api/undo", content="{}", headers={"Content-Type": "text/plain"})

    assert answer.status_code == 415


def said_and_heard(tab: Tab, text: str) -> None:
    tab.socket.send(text)
    tab.receive()


def test_malformed_frames_are_answered_or_end_their_connection_only(call, studio):
    with Tab(call) as tab:
        for text in ("", "{", "[]", '{"id": 0}', '{"id": 1, "verb": 5}', '{"id": 1, "x": 2}'):
            tab.socket.send(text)
            head, _ = tab.receive()
            assert head["error"]["kind"] == "ParameterError"
        tab.socket.send(b"\x00\x01")
        assert tab.receive()[0]["error"]["message"]
        assert tab("state")["version"] == 0
    with Tab(call) as huge, pytest.raises(ConnectionClosed):
        said_and_heard(huge, "x" * (security.FRAME_LIMIT + 1))
    with Tab(call) as broken:  # bits that no frame has
        broken.socket.socket.sendall(b"\xff\xff" + b"\x00" * 10)
        with pytest.raises((ConnectionClosed, OSError)):
            broken.receive()


def test_a_page_that_asks_without_end_is_slowed_and_others_are_not(call, studio):
    with Tab(call) as greedy:
        with studio.room.session.lock:
            sent = [greedy.send("drop") for _ in range(400)]
            refused, _ = greedy.answer(sent[-1])
        assert refused["error"]["kind"] == "Busy"
        for number in sent[1:256]:
            greedy.answer(number)


def test_slow_clients_and_a_thousand_connections_do_not_keep_others_out(call, studio, monkeypatch):
    opened = []
    try:
        for number in range(1000):
            made = socket.create_connection(("127.0.0.1", studio.port), timeout=10)
            made.sendall(b"POST /api/state HTTP/1.1\r\nHost:"[: number % 40])
            opened.append(made)
        assert call("state")["rows"]["total"] == 160
        with Tab(call) as tab:
            assert tab("state")["rows"]["total"] == 160
    finally:
        for each in opened:
            each.close()


def test_whoever_was_answered_before_keeps_the_line_while_silent_ones_come(call, studio):
    head = f"GET /api/openapi.json HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\n"
    asked = f"{head}Authorization: Bearer {studio.token}\r\n\r\n".encode()
    silent = []
    try:
        with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as known:
            known.sendall(asked)
            assert status(known.recv(1 << 16)) == 200
            for _ in range(security.STRANGERS + 20):
                silent.append(socket.create_connection(("127.0.0.1", studio.port), timeout=10))
            assert call("state")["rows"]["total"] == 160  # all of them were taken up
            known.setblocking(False)
            while rest := _at_hand(known):
                assert rest  # what was left of the first answer
            known.setblocking(True)
            known.sendall(asked)
            assert status(known.recv(1 << 16)) == 200
    finally:
        for each in silent:
            each.close()


def _at_hand(connection):
    try:
        return connection.recv(1 << 20)
    except BlockingIOError:
        return b""


def test_a_thousand_who_are_refused_do_not_keep_others_out(call, studio, monkeypatch):
    monkeypatch.setattr(security, "LINGER", 60)
    head = f"POST /api/state HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nContent-Length: 9\r\n\r\n"
    opened = []
    try:
        for _ in range(1000):
            made = socket.create_connection(("127.0.0.1", studio.port), timeout=10)
            made.sendall(head.encode())
            opened.append(made)
        assert call("state")["rows"]["total"] == 160
    finally:
        for each in opened:
            each.close()


@contextmanager
def _busy_twice(loop):
    """An event loop that is held up; `next` lets it look at its sockets once, and holds it up again."""
    held, gates = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

    def hold(at):
        if at == 0:
            loop.call_soon(hold, 1)
        held[at].set()
        gates[at].wait(60)

    def step():
        gates[0].set()
        assert held[1].wait(60)

    loop.call_soon_threadsafe(hold, 0)
    try:
        assert held[0].wait(60)
        yield step
    finally:
        for gate in gates:
            gate.set()


def test_whoever_comes_while_requests_are_not_yet_judged_is_answered(call, studio, monkeypatch):
    monkeypatch.setattr(security, "LINGER", 60)
    host = f"Host: 127.0.0.1:{studio.port}\r\n"
    refused = f"POST /api/state HTTP/1.1\r\n{host}Content-Length: 9\r\n\r\n".encode()
    token = f"Authorization: Bearer {studio.token}\r\n"
    asked = f"GET /api/openapi.json HTTP/1.1\r\n{host}{token}\r\n".encode()
    place = ("127.0.0.1", studio.port)
    others = [socket.create_connection(place, timeout=10) for _ in range(security.STRANGERS)]
    mine = []
    try:
        assert call("state")["rows"]["total"] == 160  # all of them were taken up
        with _busy_twice(studio._server.servers[0].get_loop()) as look:
            for _ in range(2):
                mine.append(socket.create_connection(place, timeout=20))
                mine[-1].sendall(asked)
            look()  # these are seen to come, and before they are taken up all the others ask
            for each in others:
                with suppress(OSError):  # the first made room for the caller
                    each.sendall(refused)
        for each in mine:
            assert status(each.recv(1 << 16)) == 200
    finally:
        for each in (*others, *mine):
            each.close()


def test_a_page_that_takes_nothing_is_let_go(call, studio, monkeypatch):
    monkeypatch.setattr("epoxy.studio.app.OUTBOX", 1 << 20)
    monkeypatch.setattr("epoxy.studio.app.PATIENCE", 0.3)
    host = f"Host: 127.0.0.1:{studio.port}\r\nOrigin: {call.origin}\r\n"
    token = f"Authorization: Bearer {studio.token}\r\nSec-WebSocket-Version: 13\r\n"
    asked = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
    with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as deaf:
        deaf.sendall(f"GET /api/live HTTP/1.1\r\n{host}{token}{asked}\r\n".encode())
        assert status(deaf.recv(4096)) == 101
        call("state")
        (page,) = studio.room.pages
        for _ in range(40):
            page.push("x" * (1 << 20))
        asked_again = 0
        while studio.room.pages and asked_again < 5000:
            call("state")
            asked_again += 1

    assert studio.room.pages == []


def test_whoever_sends_nothing_is_let_go(call, studio, monkeypatch):
    monkeypatch.setattr("epoxy.studio.security.PATIENCE", 0.3)
    monkeypatch.setattr("epoxy.studio.app.PATIENCE", 0.3)
    with socket.create_connection(("127.0.0.1", studio.port), timeout=20) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(ConnectionError) if sys.platform == "win32" else _ended():
            assert silent.recv(100) == b""
    head = (
        f"POST /api/rows HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nOrigin: {call.origin}\r\n"
        f"Authorization: Bearer {studio.token}\r\nContent-Type: application/json\r\n"
        "Content-Length: 50\r\n\r\n{"
    )
    assert status(raw(studio, head, wait=20)) == 408


class _ended:  # noqa: N801 - reads as a sentence where it is used
    """A connection may be ended by a reset as well as by an end of file."""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return kind is not None and issubclass(kind, ConnectionError)


def test_names_and_texts_that_look_like_code_stay_text(tmp_path):
    nasty = "</script><img src=x onerror=alert(1)>\x1b[2J\u202e\x00"
    folder = messages(tmp_path, classes=["ham", "spam", nasty])
    rows = folder.parent / "rows.csv"
    lines = rows.read_text().splitlines()
    lines[2] = f'm1,"{nasty[:-1]} prize",'
    rows.write_text("\n".join(lines) + "\n")
    with (folder / "lfs.py").open("a") as file:
        file.write(f"\nodd = epoxy.keywords({nasty!r}, 'award', name={nasty!r})\n")
    session = epoxy.Session.open(folder)

    with serving(session) as studio, Caller(studio.port, studio.token) as call:
        found = call("rows", find="onerror")
        answer = call.http.post("/api/source", json={"name": nasty})
        wrong = call.http.post("/api/source", json={"name": nasty + "?"})
        given = call.http.post("/api/label", json={"row": 3, "label": nasty})
        why = call("why", row=3)

    assert answer.json()["classes"] == [nasty]
    assert (given.status_code, why["truth"]) == (200, nasty)
    assert found["rows"][0]["text"].startswith("</script>")
    assert answer.json()["name"] == nasty
    assert answer.headers["content-type"] == "application/json"
    assert wrong.status_code == 400


def test_what_was_not_foreseen_is_one_sentence_and_the_server_goes_on(
    call, studio, caplog, monkeypatch
):
    def fails(room, page, asked):
        raise RuntimeError("a secret of the machine")

    monkeypatch.setattr(VERBS["drop"], "run", fails)
    answer = call.post("drop", {})
    with Tab(call) as tab:
        told, _ = tab.answer(tab.send("drop"))

    assert answer.status_code == 500
    assert answer.json()["kind"] == told["error"]["kind"] == "InternalError"
    assert "secret" not in answer.text
    assert "a secret of the machine" in caplog.text


def test_a_port_in_use_is_an_error_in_words(studio):
    with pytest.raises(StoreError, match=f"port {studio.port} of this machine cannot be used"):
        Studio(studio.room.session, studio.port)
    with pytest.raises(StoreError, match="is no port"):
        Studio(studio.room.session, 99_999)


def test_deep_json_and_numbers_that_are_none_are_refused():
    with pytest.raises(ParameterError, match=r"nested too deep|no JSON"):
        parsed("[" * 100_000)
    with pytest.raises(ParameterError, match="no JSON"):
        parsed('{"radius": NaN}')
    with pytest.raises(ParameterError, match="radius"):
        read(VERBS["radius"].asked, {"source": "a", "radius": float("inf")})


PARTS = document()["components"]["schemas"]


def made_from(schema: dict) -> st.SearchStrategy:
    """Values that a schema of ours allows."""
    if "$ref" in schema:
        return made_from(PARTS[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of(*map(made_from, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    kind = schema["type"]
    if kind == "object":
        needed = {
            name: made_from(schema["properties"][name]) for name in schema.get("required", [])
        }
        more = {k: made_from(v) for k, v in schema["properties"].items() if k not in needed}
        return st.fixed_dictionaries(needed, optional=more)
    if kind == "array":
        return st.lists(made_from(schema["items"]), max_size=3)
    if kind == "integer":
        small = st.integers(0, min(300, int(schema.get("maximum", 2**53))))
        return small | st.integers(int(schema.get("minimum", 0)), int(schema.get("maximum", 2**53)))
    if kind == "number":
        return st.floats(schema.get("minimum", -1e9), schema.get("maximum", 1e9))
    if kind == "string":
        names = st.sampled_from(["prize", "ham", "text", "m3"])
        return names | st.text(min_size=int(schema.get("minLength", 0)), max_size=20)
    return {"boolean": st.booleans(), "null": st.none()}[kind]


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)


def test_generated_requests_never_break_the_server(call):
    """Requests made from the schema, right and wrong: none is answered with 500."""
    told = document()["paths"]
    quiet = sorted(set(VERBS) - {"save_code", "save_function", "tune", "export"})
    bodies = {
        name: made_from(
            told[f"/api/{name}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        )
        for name in quiet
    }

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(
        st.sampled_from(quiet).flatmap(
            lambda name: st.tuples(st.just(name), bodies[name] | ANYTHING)
        )
    )
    def check(asked):
        name, body = asked
        answer = call.post(name, body)
        assert answer.status_code in (200, 400), answer.text

    check()


@pytest.mark.slow
def test_schemathesis_finds_nothing(studio, tmp_path):
    pytest.importorskip("schemathesis")
    origin = f"http://127.0.0.1:{studio.port}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{origin}/api/openapi.json"),
            *("-H", f"Authorization: Bearer {studio.token}", "-H", f"Origin: {origin}"),
            *("--checks", "not_a_server_error,response_schema_conformance", "--max-examples", "30"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_command_prints_one_line_with_the_token_and_ends_without_a_word(tmp_path):
    folder = messages(tmp_path)
    made = subprocess.Popen(
        [sys.executable, "-m", "epoxy", "studio", str(folder), "--no-open", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = made.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})", line)
    with Caller(int(found[1]), found[2]) as call:
        assert call("state")["project"]["name"] == "project"

    made.send_signal(signal.SIGINT)
    more, said = made.communicate(timeout=120)

    told = [line for line in said.splitlines() if not line.endswith("…")]  # what takes long says so
    assert (more, told, made.returncode) == ("", [], 0)


@pytest.mark.skipif(os.name != "posix", reason="a browser that is a shell script")
def test_a_browser_is_given_a_file_and_no_token_on_its_command_line(tmp_path):
    folder, said, browser = messages(tmp_path), tmp_path / "said", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {said}~ && mv {said}~ {said}\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "epoxy", "studio", str(folder), "--port", "0"]
    made = subprocess.Popen(
        command, env={**os.environ, "BROWSER": str(browser)}, stdout=subprocess.PIPE, text=True
    )
    token = re.search(r"token=([\w-]{43})", made.stdout.readline())[1]
    end = time.monotonic() + 60
    while not said.exists() and time.monotonic() < end:
        time.sleep(0.05)
    leads_on = (folder / ".epoxy" / "studio.html").read_text()
    made.send_signal(signal.SIGINT)
    made.communicate(timeout=120)

    assert said.read_text().strip() == (folder / ".epoxy" / "studio.html").resolve().as_uri()
    assert token not in leads_on  # nor is the one that was printed in it
    assert not (folder / ".epoxy" / "studio.html").exists()


def test_frames_begin_their_bytes_at_a_multiple_of_eight():
    from epoxy.studio.frames import packed, unpacked

    for length in range(9):
        frame = packed({"a": "x" * length, "b": float("nan")}, b"12345678")
        (size,) = struct.unpack_from("<I", frame)
        start = len(frame) - 8
        assert start % 8 == 0
        assert start >= 4 + size
        assert unpacked(frame) == ({"a": "x" * length, "b": None}, b"12345678")
