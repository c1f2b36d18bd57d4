"""What went wrong with the Hub, in one line: its clients' errors are a page each, with addresses that may be signed."""

from collections.abc import Iterator
from http import HTTPStatus

from datasets.exceptions import DatasetsError

OFFERS = "Please pick one"  # how `datasets` names the configurations, where one must be chosen
VAGUE = (FileNotFoundError, ConnectionError)  # what `datasets` turns any error into, the real one behind it


def cause_of(error: BaseException) -> str:
    """What the Hub answered, else what the connection ended with, else the first line of the error."""
    if isinstance(error, DatasetsError):  # it knows what is missing
        return first_line(error)
    chain = list(errors_behind(error))
    for one in chain:
        if said := answer_of(one):
            return said
    clear = error if not isinstance(error, VAGUE) else next((one for one in chain if not isinstance(one, VAGUE)), error)
    return first_line(clear)


def errors_behind(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what caused it, and what that was raised in place of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def answer_of(error: BaseException) -> str:
    """The status of an answer that an error is about, and the server's words; '' where it is about none."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if not isinstance(status, int):
        return ""
    known = status in HTTPStatus.__members__.values()
    said = getattr(error, "server_message", None)
    return f"the Hub answered {status}{f' {HTTPStatus(status).phrase}' if known else ''}{f': {said}' if said else ''}"


def first_line(error: BaseException) -> str:
    """The first line of what an error says, with the choice that it offers in the second one, or its name."""
    lines = str(error).splitlines() or [type(error).__name__]
    return " ".join(line for number, line in enumerate(lines[:2]) if number == 0 or line.startswith(OFFERS))
