"""A language model behind any server that speaks the OpenAI chat-completions protocol, within a budget.

What may be spent is counted before a call is made, so that no call goes beyond it. A server may be slow,
busy, broken or hostile: a call has a deadline, an answer has a size, redirects are not followed, and what
a server says is kept and shown without the key. What a server does not know of the protocol (structured
output, a temperature, the name of the limit on tokens) is left out after it said so, as long as it has
not answered once.
"""

from __future__ import annotations

import ipaddress
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ..errors import EndpointError, MissingExtra, ParameterError
from .answers import ModelAnswer
from .prompt import Message, Task

if TYPE_CHECKING:
    import httpx


class Spent(Exception):
    """There is no room for one more call."""


@dataclass(frozen=True)
class Budget:
    """The most that a run may spend: calls, tokens, and money at prices per million tokens."""

    calls: int
    tokens: int | None = None
    money: float | None = None
    prices: tuple[float, float] | None = None  # of a million tokens sent, and of a million answered

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "money"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ParameterError(f"a budget of {value} {name} cannot be kept; give 0 or more")
        if self.prices is not None and not all(0 <= each < float("inf") for each in self.prices):
            raise ParameterError(f"prices are {self.prices}; give 0 or more for a million tokens")
        if self.money is not None and self.prices is None:
            raise ParameterError(
                "a budget in money needs prices; give those of a million tokens sent and answered"
            )

    def cost(self, sent: float, answered: float) -> float | None:
        """The money that so many tokens cost; None where no prices are known."""
        if self.prices is None:
            return None
        return (sent * self.prices[0] + answered * self.prices[1]) / 1e6


class Meter:
    """What was spent of a budget, by several threads.

    A call first takes the most it could cost, and gives back the rest when it is known. A call that
    does not fit waits for those in flight to give back; with none in flight there is no room.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.sent = self.answered = 0  # tokens
        self._held: dict[int, tuple[int, int]] = {}  # of calls in flight, by number
        self._changed = threading.Condition()

    @property
    def money(self) -> float | None:
        """The money spent; None where no prices are known."""
        return self.budget.cost(self.sent, self.answered)

    def take(self, sent: int, answered: int) -> int:
        """Count a call that needs at most so many tokens; returns its number, or raises `Spent`."""
        with self._changed:
            while not self._fits(sent, answered):
                if not self._held or self.calls >= self.budget.calls:
                    raise Spent
                self._changed.wait()
            self.calls += 1
            self._held[self.calls] = (sent, answered)
            return self.calls

    def settle(self, number: int, sent: int, answered: int) -> None:
        """Tell what a call needed in the end."""
        with self._changed:
            del self._held[number]
            self.sent += sent
            self.answered += answered
            self._changed.notify_all()

    def _fits(self, sent: int, answered: int) -> bool:
        if self.calls >= self.budget.calls:
            return False
        sent += self.sent + sum(each for each, _ in self._held.values())
        answered += self.answered + sum(each for _, each in self._held.values())
        money = self.budget.cost(sent, answered)
        most, paid = self.budget.tokens, self.budget.money
        cheap = paid is None or money is None or money <= paid
        return cheap and (most is None or sent + answered <= most)


LOCAL = "http://127.0.0.1:11434/v1"
"""A server on this machine, where most of them listen."""
USUAL_KEY = "OPENAI_API_KEY"
BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
MOST_BYTES = 1 << 20
OVERHEAD = 16
"""Tokens that a message may cost beyond its bytes."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 600.0


class Stopped(Exception):
    """The run ends while a call waits to be tried again."""


class Unanswered(Exception):
    """A server gave no answer, however often it was asked."""


class _Busy(Exception):
    """A call failed in a way that may pass; `after` seconds, where the server said so."""

    def __init__(self, why: str, after: float | None = None, *, paid: bool = False) -> None:
        super().__init__(why)
        self.after, self.paid = after, paid


class _NotKnown(Exception):
    """The server does not take the request as it is."""


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
    wait: Callable[[float], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._url = _checked_url(self.endpoint)
        self._key_env = _checked_key(self.key_env)
        self._left_out: set[str] = set()  # of the protocol, because the server does not know it
        self._settled = False  # it has answered once
        if self.tries < 1 or self.answer_tokens < 1 or not self.seconds > 0:
            raise ParameterError(
                "seconds, tries and answer_tokens are 1 or more; give such numbers"
            )
        if self._key_env and self._url.scheme == "http" and not (self.is_local or self.insecure):
            raise EndpointError(
                f"the key in {self._key_env} would go to {self.where} in the clear; use https, or "
                "allow it: --insecure"
            )

    @property
    def where(self) -> str:
        """The endpoint without what stands after a question mark."""
        return str(self._url.copy_with(query=None))

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        host = self._url.host
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    def most_tokens(self, messages: Sequence[Message]) -> tuple[int, int]:
        """The most tokens a call can need, sent and answered: no token is shorter than a byte."""
        sent = sum(len(each["content"].encode("utf-8", "replace")) + OVERHEAD for each in messages)
        return sent, self.answer_tokens

    def answer(self, task: Task, cells: Mapping[str, str], meter: Meter) -> ModelAnswer:
        """Ask about one row; an answer that is none of the choices gets one chance to be repaired."""
        messages, said = task.messages(cells), ""
        try:
            for _ in range(2):
                said = self._completed(messages, task, meter)
                if (choice := task.read(said)) is not None:
                    return ModelAnswer(choice)
                messages = task.repaired(messages, said)
        except _NotKnown as error:
            if not self._settled:  # it takes no request at all
                raise Unanswered(f"{self.where} refuses: {error}") from None
            said = str(error)
        return ModelAnswer(None, self._hidden(said[:200]))

    def __enter__(self) -> Self:
        import httpx

        self._client = httpx.Client(
            auth=self._sign,
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(self.seconds, connect=min(10.0, self.seconds)),
            limits=httpx.Limits(max_connections=None),
            trust_env=not self.is_local,  # a proxy for other machines, none for this one
            follow_redirects=False,
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    @property
    def _key(self) -> str:
        """The key, read when a request is signed: no object holds it, so no file, log or repr can."""
        return os.environ.get(self._key_env or "", "").strip()

    def _sign(self, request: httpx.Request) -> httpx.Request:
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        return request

    def _hidden(self, text: str) -> str:
        """The text without the key, where a server repeats it."""
        return text.replace(self._key, "…") if self._key else text

    def _completed(self, messages: Sequence[Message], task: Task, meter: Meter) -> str:
        """What the model says, tried again as often as is useful."""
        import tenacity

        backed_off = tenacity.wait_exponential(multiplier=FIRST_WAIT, max=60)

        def pause(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            after = error.after if isinstance(error, _Busy) else None
            return backed_off(state) if after is None else after

        again = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Busy),
            stop=tenacity.stop_after_attempt(self.tries) | tenacity.stop_when_event_set(self.stop),
            sleep=self.wait or tenacity.sleep_using_event(self.stop),
            wait=pause,
            reraise=True,
        )
        try:
            return again(self._tried, messages, task, meter)
        except _Busy as error:
            if self.stop.is_set():
                raise Stopped from None
            raise Unanswered(f"{self.where} gives no answer: {error}, {self.tries} times") from None

    def _tried(self, messages: Sequence[Message], task: Task, meter: Meter) -> str:
        """What the model says; every call counts, also those that find out what the server knows."""
        most = self.most_tokens(messages)
        while True:
            if self.stop.is_set():
                raise Stopped
            number, used = meter.take(*most), (0, 0)
            try:
                said, counted = self._called(self._body(messages, task))
                used = counted or most
                self._settled = True
                return said
            except _NotKnown as error:
                if self._settled or not self._leave_out(str(error)):
                    raise
            except _Busy as error:
                used = most if error.paid else used
                raise
            finally:
                meter.settle(number, *used)

    def _body(self, messages: Sequence[Message], task: Task) -> bytes:
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "stream": False}
        limit = "max_completion_tokens" if "max_tokens" in self._left_out else "max_tokens"
        options = {limit: self.answer_tokens, "temperature": 0, "response_format": task.schema}
        body |= {name: each for name, each in options.items() if name not in self._left_out}
        return json.dumps(body).encode()

    def _leave_out(self, why: str) -> bool:
        """Leave out what the server complains of; False where nothing is left to leave out."""
        complaints = {"max_completion_tokens": "max_tokens", "temperature": "temperature"}
        for word, option in (*complaints.items(), ("", "response_format")):
            if word in why and option not in self._left_out:
                self._left_out.add(option)
                return True
        return False

    def _called(self, body: bytes) -> tuple[str, tuple[int, int] | None]:
        import httpx

        deadline = time.monotonic() + self.seconds
        url = self._url.copy_with(path=self._url.path.rstrip("/") + "/chat/completions")
        try:
            with self._client.stream("POST", url, content=body) as response:
                raw = _bounded(response, deadline)
        except httpx.ConnectError as error:
            if not self._settled:
                raise EndpointError(
                    f"nobody answers at {self.where} ({error}); start a server there, or give another: "
                    "--endpoint URL"
                ) from None
            raise _Busy("no connection") from None
        except httpx.TimeoutException:
            raise _Busy(f"no answer in {self.seconds:g} s", paid=True) from None
        except httpx.RequestError as error:
            raise _Busy(f"the connection broke ({type(error).__name__})", paid=True) from None
        if response.status_code == 200:
            return _reply(raw)
        raise self._refused(response.status_code, response.headers, raw)

    def _refused(self, status: int, headers: Mapping[str, str], raw: bytes) -> Exception:
        said = self._hidden(raw[:500].decode("utf-8", "replace").strip())
        fact = f"{self.where} answers {status}" + (f": {said}" if said else "")
        if 300 <= status < 400:
            return EndpointError(
                f"{self.where} sends us on to {headers.get('location', 'nowhere')!r:.200}, and rows "
                "are sent nowhere else; give that as --endpoint if it is right"
            )
        if status in (401, 403):
            held = f"the key is that of {self._key_env}" if self._key_env else "no key is set"
            return EndpointError(f"{fact}; {held}: set {USUAL_KEY}, or name another: --key-env")
        if status in (400, 413, 422):
            return _NotKnown(said)
        if status in BUSY and "insufficient_quota" not in said:
            after = _retry_after(headers.get("retry-after", ""))
            if after is not None and after > LONGEST_WAIT:
                return EndpointError(f"{fact}; it asks to come back in {after:.0f} s: do so then")
            return _Busy(f"status {status}", after)
        return EndpointError(f"{fact}; check --endpoint, --model and the account there")


def _checked_key(name: str | None) -> str | None:
    """The variable that holds a key; without a name the usual one, if it is set."""
    used = name or USUAL_KEY
    key = os.environ.get(used, "").strip()
    if not key:
        if name is None:
            return None
        raise EndpointError(f"the environment has no {name}; set it to the key of the server")
    if not all("!" <= each <= "~" for each in key):
        raise EndpointError(
            f"what {used} holds is no key; set it to printable characters without spaces"
        )
    return used


def _checked_url(endpoint: str) -> httpx.URL:
    try:
        import httpx
        import tenacity  # noqa: F401 - said here, not in the middle of a run
    except ImportError:
        raise MissingExtra.of("asking a server", "httpx and tenacity", "ask") from None
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


def _bounded(response: httpx.Response, deadline: float) -> bytes:
    """The body of a response; nothing where it is longer than any answer."""
    import httpx

    found = b""
    for part in response.iter_raw():
        found += part
        if len(found) > MOST_BYTES:
            return b""
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("too slow")
    return found


def _reply(raw: bytes) -> tuple[str, tuple[int, int] | None]:
    """What a completion says, nothing where it is none, and its tokens where the server counts them."""
    try:
        found = json.loads(raw)
        said = found["choices"][0]["message"]["content"]
        usage = found.get("usage") or {}
        counts = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (ValueError, TypeError, LookupError, RecursionError, AttributeError):
        return "", None
    counted = tuple(each for each in counts if type(each) is int and 0 <= each < 1 << 40)
    return said if isinstance(said, str) else "", counted if len(counted) == 2 else None


def _retry_after(given: str) -> float | None:
    """Seconds that a header asks for; None where it says no number."""
    try:
        return max(0.0, float(given))
    except ValueError:
        return None
