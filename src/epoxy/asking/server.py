"""A language model behind any server that speaks the OpenAI chat-completions protocol.

A server may be slow, busy, broken or hostile: a call has a deadline, an answer has a size, redirects are
not followed, and what an error says is shown without the key. What a server does not know of the
protocol (structured output, a temperature, the name of the limit on tokens) is left out after it said
so, as long as it has not answered once.
"""

from __future__ import annotations

import ipaddress
import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import EndpointError, MissingExtra, ParameterError
from .budget import Meter
from .cache import MALFORMED, REFUSED, Answer
from .key import Key
from .prompt import Message, Prompt

if TYPE_CHECKING:
    import httpx

LOCAL = "http://127.0.0.1:11434/v1"
"""A server on this machine, where most of them listen."""
BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
MOST_BYTES = 1 << 20
OVERHEAD = 16
"""Tokens that a message may cost beyond its bytes."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 600.0


class Stopped(Exception):
    """The run ends while a call waits for its turn."""


class Unanswered(Exception):
    """A server gave no answer, however often it was asked."""


class _Busy(Exception):
    """A call failed in a way that may pass; `after` seconds, where the server said so."""

    def __init__(self, why: str, after: float | None = None, *, paid: bool = False) -> None:
        super().__init__(why)
        self.after, self.paid = after, paid


class _NotKnown(Exception):
    """The server does not take the request as it is."""


class _Reply(NamedTuple):
    said: str
    tokens: tuple[int, int] | None  # sent and answered, where the server counts them


@dataclass
class _Manner:
    """What of the protocol a server is known to take."""

    structured: bool = True
    temperature: bool = True
    limit: str = "max_tokens"
    settled: bool = False  # it has answered once

    def without(self, why: str) -> bool:
        """Leave out what the server complains of; False where nothing is left to leave out."""
        if self.settled:
            return False
        if "max_completion_tokens" in why and self.limit == "max_tokens":
            self.limit = "max_completion_tokens"
        elif "temperature" in why and self.temperature:
            self.temperature = False
        elif self.structured:
            self.structured = False
        else:
            return False
        return True


@dataclass(eq=False)
class Server:
    """A model at an endpoint.

    Parameters
    ----------
    model, endpoint
        The model's name there, and where the protocol is spoken; by default on this machine.
    key_env
        The variable of the environment that holds the key; `OPENAI_API_KEY` if it is set.
    insecure
        Send the key over plain HTTP to another machine.
    seconds, tries
        How long a call may take, and how often one is tried that fails in a way that may pass.
    answer_tokens
        The most tokens of an answer; a model that thinks aloud needs more.
    """

    model: str
    endpoint: str = LOCAL
    key_env: str | None = None
    insecure: bool = False
    seconds: float = 60.0
    tries: int = 5
    answer_tokens: int = 256
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    wait: Callable[[float], object] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._url = _checked_url(self.endpoint)
        self._key = Key.named(self.key_env)
        self._manner = _Manner()
        self._not_before, self._turn = 0.0, threading.Lock()
        self._client: httpx.Client | None = None
        if self.tries < 1 or self.answer_tokens < 1 or not self.seconds > 0:
            raise ParameterError(
                "seconds, tries and answer_tokens are 1 or more; give such numbers"
            )
        if self._key and self._url.scheme == "http" and not self.is_local and not self.insecure:
            raise EndpointError(
                f"the key in {self._key.name} would go to {self.where} in the clear; use https, or "
                "allow it: --insecure"
            )

    @property
    def where(self) -> str:
        """The endpoint without what stands after a question mark."""
        return str(self._url.copy_with(query=None))

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return _is_loopback(self._url.host)

    def most_tokens(self, messages: Sequence[Message]) -> tuple[int, int]:
        """The most tokens a call can need, sent and answered: no token is shorter than a byte."""
        sent = sum(len(each["content"].encode("utf-8", "replace")) + OVERHEAD for each in messages)
        return sent, self.answer_tokens

    def answer(self, prompt: Prompt, cells: Mapping[str, str], meter: Meter) -> Answer:
        """Ask about one row; an answer that is none of the choices gets one chance to be repaired."""
        messages = prompt.messages(cells)
        try:
            said = self._completed(messages, prompt, meter)
            found = prompt.read(said)
            if found is None:
                messages = prompt.repaired(messages, said)
                found = prompt.read(self._completed(messages, prompt, meter))
        except _NotKnown as error:
            if not self._manner.settled:  # it takes no request at all
                raise Unanswered(f"{self.where} refuses: {error}") from None
            return Answer(None, REFUSED)
        return Answer(found, "" if found else MALFORMED)

    def close(self) -> None:
        """Let connections go."""
        if self._client is not None:
            self._client.close()

    # one call

    def _completed(self, messages: Sequence[Message], prompt: Prompt, meter: Meter) -> str:
        """What the model says, tried again as often as is useful; every try is a call that counts."""
        most, failed = self.most_tokens(messages), 0
        while True:
            self._wait_for_turn()
            number = meter.take(*most)
            used = (0, 0)
            try:
                reply = self._called(self._body(messages, prompt))
                used = most if reply.tokens is None else reply.tokens
                self._manner.settled = True
                return reply.said
            except _NotKnown as error:
                if not self._manner.without(str(error)):
                    raise
            except _Busy as error:
                used = most if error.paid else used
                failed += 1
                if failed >= self.tries:
                    raise Unanswered(
                        f"{self.where} gives no answer: {error}, {failed} times"
                    ) from None
                self._postpone(failed, error)
            finally:
                meter.settle(number, *used)

    def _body(self, messages: Sequence[Message], prompt: Prompt) -> bytes:
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "stream": False}
        body[self._manner.limit] = self.answer_tokens
        if self._manner.temperature:
            body["temperature"] = 0
        if self._manner.structured:
            body["response_format"] = prompt.schema
        return json.dumps(body).encode()

    def _called(self, body: bytes) -> _Reply:
        import httpx

        deadline = time.monotonic() + self.seconds
        url = self._url.copy_with(path=self._url.path.rstrip("/") + "/chat/completions")
        try:
            with self._connected().stream("POST", url, content=body) as response:
                raw = _bounded(response, deadline)
                status, headers = response.status_code, response.headers
        except httpx.ConnectError as error:
            if not self._manner.settled:
                raise EndpointError(
                    f"nobody answers at {self.where} ({error}); start a server there, or give another: "
                    "--endpoint URL"
                ) from None
            raise _Busy("no connection") from None
        except httpx.TimeoutException:
            raise _Busy(f"no answer in {self.seconds:g} s", paid=True) from None
        except httpx.RequestError as error:
            raise _Busy(f"the connection broke ({type(error).__name__})", paid=True) from None
        if status == 200:
            return _reply(raw)
        raise self._refused(status, headers, raw)

    def _refused(self, status: int, headers: Mapping[str, str], raw: bytes | None) -> Exception:
        text = (raw or b"")[:500].decode("utf-8", "replace").strip()
        said = text if self._key is None else self._key.hide(text)
        fact = f"{self.where} answers {status}" + (f": {said}" if said else "")
        if 300 <= status < 400:
            return EndpointError(
                f"{self.where} sends us on to {headers.get('location', 'nowhere')!r:.200}, and rows "
                "are sent nowhere else; give that as --endpoint if it is right"
            )
        if status in (401, 403):
            held = "no key is set" if self._key is None else f"the key is that of {self._key.name}"
            return EndpointError(f"{fact}; {held}: set OPENAI_API_KEY, or name another: --key-env")
        if status in (400, 413, 422):
            return _NotKnown(said)
        if status in BUSY and "insufficient_quota" not in said:
            after = _retry_after(headers.get("retry-after"))
            if after is not None and after > LONGEST_WAIT:
                return EndpointError(f"{fact}; it asks to come back in {after:.0f} s: do so then")
            return _Busy(f"status {status}", after)
        return EndpointError(f"{fact}; check --endpoint, --model and the account there")

    # when to call

    def _wait_for_turn(self) -> None:
        """Wait as long as the server asked everybody to."""
        while (left := self._not_before - time.monotonic()) > 0:
            if self.wait is not None:
                self.wait(left)
                break
            self.stop.wait(left)
            if self.stop.is_set():
                break
        if self.stop.is_set():
            raise Stopped

    def _postpone(self, failed: int, error: _Busy) -> None:
        """Nobody calls for a while: as long as the server said, else longer with every failure."""
        backed_off = min(FIRST_WAIT * 2 ** (failed - 1), 60.0) * random.uniform(0.75, 1.25)
        wait = backed_off if error.after is None else error.after
        with self._turn:
            self._not_before = max(self._not_before, time.monotonic() + wait)

    def _connected(self) -> httpx.Client:
        with self._turn:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> httpx.Client:
        import httpx

        key = self._key

        class Signed(httpx.Auth):
            def auth_flow(self, request: httpx.Request) -> Any:
                if key is not None:
                    key.sign(request)
                yield request

        return httpx.Client(
            auth=Signed(),
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(self.seconds, connect=min(10.0, self.seconds)),
            limits=httpx.Limits(max_connections=None),
            trust_env=not self.is_local,  # a proxy for other machines, none for this one
            follow_redirects=False,
        )


def _checked_url(endpoint: str) -> httpx.URL:
    try:
        import httpx
    except ImportError:
        raise MissingExtra.of("asking a server", "httpx", "ask") from None
    try:
        url = httpx.URL(endpoint)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise EndpointError(
            f"the endpoint {endpoint!r:.200} is no address; write http(s)://HOST/v1"
        )
    if url.userinfo:
        raise EndpointError(
            "the endpoint holds a name or password, which would be shown; take it out, and put the key "
            "into the environment"
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _bounded(response: httpx.Response, deadline: float) -> bytes | None:
    """The body of a response; None where it is longer than any answer."""
    import httpx

    parts, size = [], 0
    for part in response.iter_raw():
        size += len(part)
        if size > MOST_BYTES:
            return None
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("too slow")
        parts.append(part)
    return b"".join(parts)


def _reply(raw: bytes | None) -> _Reply:
    """What a completion says; nothing where it is none."""
    try:
        found = json.loads(raw or b"")
        said = found["choices"][0]["message"]["content"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return _Reply("", None)
    return _Reply(said if isinstance(said, str) else "", _usage(found))


def _usage(found: Mapping[str, Any]) -> tuple[int, int] | None:
    usage = found.get("usage")
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    if not all(type(each) is int and 0 <= each < 1 << 40 for each in counts):
        return None
    return counts[0], counts[1]  # type: ignore[return-value]


def _retry_after(given: str | None) -> float | None:
    """Seconds that a header asks for, given as such or as a date."""
    if given is None:
        return None
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
