"""The default model over shards."""

from __future__ import annotations

from .opening import World
from .paper import Concluded


def conclude(world: World) -> Concluded:
    """Not yet."""
    raise NotImplementedError
