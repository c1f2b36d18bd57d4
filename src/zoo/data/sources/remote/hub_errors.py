"""One-line messages for errors of the Hub: the clients' own are a page each, with URLs that may be signed."""

from collections.abc import Iterator
from http import HTTPStatus

from datasets.exceptions import DatasetsError

OFFERS = "Please pick one"  # how `datasets` lists the configurations if one must be chosen
VAGUE = (FileNotFoundError, ConnectionError)  # `datasets` raises these in place of any error, which is their cause


def cause_of(error: BaseException) -> str:
    """The Hub's answer, else the error of the connection, else the first line of the error."""
    if isinstance(error, DatasetsError):  # its own message names what is missing
        return first_line(error)
    chain = list(errors_behind(error))
    for one in chain:
        if said := answer_of(one):
            return said
    clear = error if not isinstance(error, VAGUE) else next((one for one in chain if not isinstance(one, VAGUE)), error)
    return first_line(clear)


def errors_behind(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, and the chain of errors that it was raised from or during."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def answer_of(error: BaseException) -> str:
    """The HTTP status and the server's message, from the response in an error; '' if it has none."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if not isinstance(status, int):
        return ""
    known = status in HTTPStatus.__members__.values()
    said = getattr(error, "server_message", None)
    return f"the Hub answered {status}{f' {HTTPStatus(status).phrase}' if known else ''}{f': {said}' if said else ''}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, with the choices that the second may list; its class name if empty."""
    lines = str(error).splitlines() or [type(error).__name__]
    return " ".join(line for number, line in enumerate(lines[:2]) if number == 0 or line.startswith(OFFERS))
