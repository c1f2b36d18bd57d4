"""What goes wrong with the hub: one message for each failure, whether it may pass, and trying again."""

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
logger = logging.getLogger(__name__)
SHOWN = 300  # characters of what a server says
PASSING = {408, 429, 500, 502, 503, 504}
NETWORK = (HfHubHTTPError.__mro__[1], TimeoutError)  # the first: the HTTP library's own base, whichever library it is
MEANINGS = {
    400: "the request was refused",
    401: "the token was not accepted; log in again with `hf auth login`, or set HF_TOKEN",
    403: "the token may not do that; it needs write access to this name",
    404: "there is no such thing; is the name right, and may the token see it?",
    409: "it is in conflict with something else that happens there",
    412: "somebody else changed it meanwhile",
    413: "a file is too large for it",
    429: "too many requests; wait before trying again",
}


class HubFailure(RuntimeError):
    """A request that failed.

    Args:
        passing: whether it may go well another time.
        wait: seconds that the hub asked to wait.
    """

    def __init__(self, message: str, passing: bool, wait: float) -> None:
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
        client_log.set_verbosity_error()  # type: ignore[no-untyped-call]
        set_client_factory(lambda: with_timeout(factory(), self.timeout))
        try:
            yield
        finally:
            set_client_factory(factory)
            client_log.set_verbosity(verbosity)


def with_timeout(client: Any, seconds: float) -> Any:  # the HTTP library's client, whichever library it is
    """A client of the hub with a limit on silence."""
    client.timeout = seconds
    return client


@contextmanager
def explaining(doing: str, persisted: bool = False) -> Iterator[None]:
    """Turn whatever the hub's client raises into one message.

    Args:
        doing: what was asked for.
        persisted: whether the client has tried again by itself.
    """
    try:
        yield
    except Exception as error:  # the network's errors and the client's have no common type
        status = status_of(error)
        broken = status is None and any(isinstance(cause, NETWORK) for cause in causes(error))
        passing = (status in PASSING or broken) and not persisted
        raise HubFailure(f"{doing}: {explain(error, status, broken)}", passing, asked_wait(error)) from error


def explain(error: Exception, status: int | None, broken: bool) -> str:
    """What happened, with what the server said; never with the token."""
    if status is not None:
        meaning = MEANINGS.get(status, "the hub is in trouble" if status >= 500 else "the hub refused it")
        said = next((cause.server_message for cause in causes(error) if isinstance(cause, HfHubHTTPError)), None)
        return f"{meaning} ({status}{f': {clean(said)}' if said else ''})"
    first = next((cause for cause in causes(error) if isinstance(cause, NETWORK)), error)
    words = clean(str(first)) or "no reason given"
    return f"the connection failed ({type(first).__name__}: {words})" if broken else words


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def status_of(error: BaseException) -> int | None:
    """The status that a server answered with; None where it did not answer."""
    return next((cause.response.status_code for cause in causes(error) if isinstance(cause, HfHubHTTPError)), None)


def asked_wait(error: BaseException) -> float:
    """Seconds that the server asks to wait."""
    answers = [cause.response for cause in causes(error) if isinstance(cause, HfHubHTTPError)]
    said = answers[0].headers.get("Retry-After", "") if answers else ""
    return float(said) if said.isdecimal() else 0.0


def clean(text: str) -> str:
    """A server's words on one line, short, without control characters and without the token."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    token = get_token()
    text = text.replace(token, "…") if token else text
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def log(message: str) -> None:
    """A line of the log, cleaned."""
    logger.warning("%s", clean(message))
