"""A trained run as one object that is loaded once and answers as often as it is asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.config import merge
from zoo.inference.loaded import Loaded
from zoo.inference.predict import predict
from zoo.inference.typed import BATCH
from zoo.models.generation.settings import parse_generate


@dataclass(frozen=True)
class Pipeline:
    """Model, tokenizer and task together; a call gives what `zoo predict --json` prints.

    Args:
        batch: texts in one pass of the model.
    """

    loaded: Loaded
    batch: int = BATCH

    def __call__(
        self,
        texts: str | Sequence[str],
        pair: str | Sequence[str] | None = None,
        generate: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """The answers in the order of the texts, each with `input`, `output` and `scores`; a list for one text, too.

        Args:
            texts: one or several, or the files of pictures.
            pair: second texts, for a model of pairs: one for each text.
            generate: how text is generated, by the keys of `--set generate.…`; None: as the task says.

        Raises:
            ValueError: a text is too long, or asks for what the model was not trained for.
            RuntimeError: the model fails, or its outputs are not finite.
        """
        settings = parse_generate(merge(self.loaded.task.generate, dict(generate or {})))
        seconds = None if pair is None else several(pair, "pair")
        found = predict(
            self.loaded, several(texts, "texts"), seconds, settings, writes=bool(generate), batch=self.batch
        )
        return [answer._asdict() for answer in found]


def several(texts: Any, place: str) -> list[str]:
    """A list of texts, also for one; files of pictures may be paths.

    Raises:
        ValueError: one of them is no text.
    """
    alone = isinstance(texts, str | Path | bytes | Mapping) or not isinstance(texts, Iterable)
    known = [texts] if alone else list(texts)
    for number, one in enumerate(known, 1):
        if not isinstance(one, str | Path):
            raise ValueError(f"{place}: input {number} is {one!r}, of type {type(one).__name__}; give a str")
    return [str(one) for one in known]
