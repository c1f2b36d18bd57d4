"""What goes wrong with the hub: one message for each failure, whether it may pass, and trying again.

The client's `http_backoff` repeats single requests, and its errors are a page each, with addresses and sometimes a
server's raw words. Here a whole piece of work is repeated (a push must look at the repository again), and a message is
one line, without control characters and without the token.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from huggingface_hub import get_token, set_client_factory
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import _http
from huggingface_hub.utils import logging as client_log

T = TypeVar("T")
Kinds = type[BaseException] | tuple[type[BaseException], ...]
logger = logging.getLogger(__name__)
SHOWN = 300  # characters of what a server says
PASSING = {408, 429, 500, 502, 503, 504}
NETWORK = (HfHubHTTPError.__mro__[1], TimeoutError)  # the first: the HTTP library's own base, whichever library it is
MEANINGS = {
    400: "the request was refused",
    401: "the token was not accepted; log in again with `hf auth login`, or set HF_TOKEN",
    403: "the token may not do that; it needs write access to this name",
    404: "not found; is the name right, and may the token see it?",
    409: "it conflicts with another operation there",
    412: "somebody else changed it meanwhile",
    413: "a file is too large for the Hub",
    429: "too many requests; wait before trying again",
}


class HubFailure(RuntimeError):
    """A request that failed.

    Args:
        passing: whether it may go well another time.
        wait: seconds that the hub asked to wait, if it did.
    """

    def __init__(self, message: str, passing: bool, wait: float = 0.0) -> None:
        super().__init__(message)
        self.passing, self.wait = passing, wait


@dataclass(frozen=True)
class RetryPolicy:
    """How long the hub is waited for.

    Args:
        retries: after a failure that may pass: too many requests, an error of the server, a broken connection.
        first_wait, longest_wait: seconds before the first retry, and before any; each is twice the one before.
        timeout: seconds until a silent connection counts as broken.
    """

    retries: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    timeout: float = 60.0

    def persist(self, work: Callable[[], T]) -> T:
        """Do something, again where it fails with what may pass."""
        for retry in range(self.retries):
            try:
                return work()
            except HubFailure as trouble:
                if not trouble.passing:
                    raise
                wait = min(max(trouble.wait, self.first_wait * 2**retry), self.longest_wait)
                logger.warning("%s; trying again in %g s", trouble, wait)
                time.sleep(wait)
        return work()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The hub's client, which would wait for ever and log addresses that are signed, made to do neither.

        A factory that the user's program has set (for a proxy, for certificates) goes on making the clients.
        """
        verbosity, factory = client_log.get_verbosity(), _http._GLOBAL_CLIENT_FACTORY

        def limited() -> Any:  # the HTTP library's client, whichever library it is
            client = factory()
            client.timeout = self.timeout
            return client

        client_log.set_verbosity_error()  # type: ignore[no-untyped-call]
        set_client_factory(limited)
        try:
            yield
        finally:
            set_client_factory(factory)
            client_log.set_verbosity(verbosity)


@contextmanager
def explaining(doing: str, persisted: bool = False) -> Iterator[None]:
    """Turn whatever the hub's client raises into one message, with what the server said; never with the token.

    Args:
        doing: what was asked for.
        persisted: whether the client has tried again by itself.
    """
    try:
        yield
    except Exception as error:  # the network's errors and the client's have no common type
        answer, broken = cause(error, HfHubHTTPError), cause(error, NETWORK)
        passing, asked = broken is not None, ""
        if isinstance(answer, HfHubHTTPError):
            status, said = answer.response.status_code, answer.server_message
            passing, asked = status in PASSING, answer.response.headers.get("Retry-After", "")
            meaning = MEANINGS.get(status, "the Hub has an error" if status >= 500 else "the Hub refused it")
            words = f"{meaning} ({status}{f': {clean(said)}' if said else ''})"
        else:
            words = clean(str(broken or error)) or "no reason given"
            words = f"the connection failed ({type(broken).__name__}: {words})" if broken else words
        wait = float(asked) if asked.isdecimal() else 0.0  # it may also be a date
        raise HubFailure(f"{doing}: {words}", passing and not persisted, wait) from error


def cause(error: BaseException | None, kinds: Kinds) -> BaseException | None:
    """The error itself or the first of those that led to it, if it is one of these kinds."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


def clean(text: str) -> str:
    """A server's words on one line, short, without control characters and without the token."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    token = get_token()
    text = text.replace(token, "…") if token else text
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
