"""The key of a server: it stays in the environment, and is read when a request is signed.

No object holds it, so that no file, log, traceback or repr can.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..errors import EndpointError

USUAL = "OPENAI_API_KEY"


@dataclass(frozen=True)
class Key:
    """A key, by the name of the variable that holds it."""

    name: str = USUAL

    @classmethod
    def named(cls, name: str | None) -> Key | None:
        """The key that a variable holds; without a name the usual one, if it is set."""
        key = cls(name or USUAL)
        if not key._is_set():
            if name is None:
                return None
            raise EndpointError(f"the environment has no {name}; set it to the key of the server")
        if not key._is_plain():
            raise EndpointError(
                f"what {key.name} holds is no key; set it to printable characters without spaces"
            )
        return key

    def sign(self, request: Any) -> None:
        """Write the key into the header of a request."""
        request.headers["Authorization"] = f"Bearer {_value(self.name)}"

    def hide(self, text: str) -> str:
        """The text without the key, where a server repeats it."""
        return text.replace(_value(self.name), "…") if self._is_set() else text

    def _is_set(self) -> bool:
        return bool(_value(self.name))

    def _is_plain(self) -> bool:
        return all("!" <= each <= "~" for each in _value(self.name))


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()
