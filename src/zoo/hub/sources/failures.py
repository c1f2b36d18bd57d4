"""Failures of the Hugging Face Hub: one message for each, whether it is temporary, and retries.

The client's `http_backoff` retries single requests, and its errors are a page long, with URLs and sometimes a server's
raw reply. Here a whole unit of work is retried (a push must look at the repository again), and a message is one line,
without control characters and without the token.
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
ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]
logger = logging.getLogger(__name__)
MOST_SHOWN = 300  # characters of a server's reply in a message
TEMPORARY = {408, 429, 500, 502, 503, 504}  # the status codes of temporary failures
NETWORK = (HfHubHTTPError.__mro__[1], TimeoutError)  # the first: the base error of the client's HTTP library
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
        temporary: whether it is temporary, so that a retry may succeed.
        wait: seconds that the Hub asked to wait; 0 if it did not ask.
    """

    def __init__(self, message: str, temporary: bool, wait: float = 0.0) -> None:
        super().__init__(message)
        self.temporary, self.wait = temporary, wait


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long zoo retries.

    Args:
        retries: number of retries after temporary failures: too many requests, server errors, broken connections.
        first_wait, longest_wait: seconds before the first retry, and at most before any; each wait doubles the last.
        timeout: seconds until a silent connection counts as broken.
    """

    retries: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    timeout: float = 60.0

    def run(self, work: Callable[[], T]) -> T:
        """Run `work`, and again after temporary failures.

        Raises:
            HubFailure: it failed for good, or still after the last retry.
        """
        for retry in range(self.retries):
            try:
                return work()
            except HubFailure as trouble:
                if not trouble.temporary:
                    raise
                wait = min(max(trouble.wait, self.first_wait * 2**retry), self.longest_wait)
                logger.warning("%s; trying again in %g s", trouble, wait)
                time.sleep(wait)
        return work()

    @contextmanager
    def patched_client(self) -> Iterator[None]:
        """Set the timeout of the Hub's client, which has none, and silence its log, which would show signed URLs.

        A client factory that the user's program has set (for a proxy, for certificates) still builds the clients.
        """
        # the client has a public setter of its factory, but no getter
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
def hub_errors(doing: str, retried: bool = False) -> Iterator[None]:
    """Turn any exception of the Hub's client into one `HubFailure`, with the server's reply and without the token.

    Args:
        doing: the action, as the message names it.
        retried: whether the client has already retried, so that zoo does not.

    Raises:
        HubFailure: the block raised an exception.
    """
    try:
        yield
    except Exception as error:  # errors of the network and of the client have no common base class
        answer, broken = find_cause(error, HfHubHTTPError), find_cause(error, NETWORK)
        temporary, asked = broken is not None, ""
        if isinstance(answer, HfHubHTTPError):
            status, said = answer.response.status_code, answer.server_message
            temporary, asked = status in TEMPORARY, answer.response.headers.get("Retry-After", "")
            meaning = MEANINGS.get(status, "the Hub has an error" if status >= 500 else "the Hub refused it")
            words = f"{meaning} ({status}{f': {sanitize(said)}' if said else ''})"
        else:
            words = sanitize(str(broken or error)) or "no reason given"
            words = f"the connection failed ({type(broken).__name__}: {words})" if broken else words
        wait = float(asked) if asked.isdecimal() else 0.0  # it may also be a date
        raise HubFailure(f"{doing}: {words}", temporary and not retried, wait) from error


def find_cause(error: BaseException | None, kinds: ErrorTypes) -> BaseException | None:
    """The error itself, or the first of its causes, that is of these types; None if there is none."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


def sanitize(text: str) -> str:
    """A server's reply on one line, shortened, without control characters and without the token."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    token = get_token()
    text = text.replace(token, "…") if token else text
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
