"""What Dask says when a cluster fails, in our words: what was lost, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

from distributed import Client, KilledWorker
from distributed.comm import CommClosedError

from ..errors import ClusterError, EpoxyError

_AGAIN = "run again: what is finished is not done again"


@contextmanager
def told(client: Client, stage: str) -> Iterator[None]:
    """Say it of a stage where the cluster fails; an error of the work itself passes."""
    try:
        yield
    except EpoxyError:
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"a shard of {stage} ended every worker that was given it ({error.allowed_failures + 1}, the last "
            f"was {error.last_worker.address}); see its log, and if it had too little memory, give a "
            "smaller --memory"
        ) from error
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"a worker cannot import {error.name!r}; install what the others have: "
            "pip install 'epoxy-ws[cluster]'"
        ) from error
    except (CancelledError, CommClosedError, ConnectionError, TimeoutError) as error:
        raise lost(client, stage) from error
    except RuntimeError as error:
        if client.status == "running":
            raise
        raise lost(client, stage) from error


def lost(client: Client, stage: str) -> ClusterError:
    """The scheduler has gone, or does not speak to us any more."""
    scheduler = client.scheduler.address if client.scheduler is not None else "the address given"
    return ClusterError(
        f"the scheduler at {scheduler} was lost during {stage}, and no labels were written; "
        f"start it and its workers, and {_AGAIN}"
    )
