"""What Dask says when a cluster fails, in our words: what was lost, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

from distributed import Client, KilledWorker
from distributed.comm import CommClosedError

from ..errors import ClusterError, EpoxyError

_AGAIN = "run again: what is kept is not done again"


@contextmanager
def told(client: Client) -> Iterator[None]:
    """Say where the cluster fails; an error of the work itself passes."""
    try:
        yield
    except EpoxyError:
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"some rows ended every worker that was given them ({error.allowed_failures + 1}, the "
            f"last was {error.last_worker.address}); see its log, and if it had too little memory, give "
            "a smaller --memory"
        ) from error
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"a worker cannot import {error.name!r}; install what the others have: "
            "pip install 'epoxy-ws[cluster]'"
        ) from error
    except CancelledError as error:
        reason = getattr(error, "reason", "scheduler-connection-lost")
        if reason == "scheduler-connection-lost" or client.status != "running":
            raise lost(client) from error
        raise ClusterError(
            f"the scheduler at {client.scheduler.address} cancelled the work ({reason}); "
            f"see its log, and {_AGAIN}"
        ) from error
    except (CommClosedError, ConnectionError, TimeoutError) as error:
        raise lost(client) from error
    except RuntimeError as error:
        if client.status == "running":
            raise
        raise lost(client) from error


def lost(client: Client) -> ClusterError:
    """The scheduler has gone, or does not speak to us any more."""
    scheduler = client.scheduler.address if client.scheduler is not None else "the address given"
    return ClusterError(
        f"the scheduler at {scheduler} was lost, and no labels were written; "
        f"start it and its workers, and {_AGAIN}"
    )
