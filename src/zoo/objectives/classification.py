"""Name the class of a text, of a pair of texts or of a picture."""

from typing import ClassVar

from zoo.objectives.document_label import DocumentLabel
from zoo.objectives.objective import objectives


@objectives.register("classification")
class Classification(DocumentLabel):
    """log p(class | x_1 … x_m), from the first place of an encoder, the last one of a decoder, or a picture's mean.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 4.1; Radford et al. 2018 (GPT), equation 4 (L2).
    """

    head: ClassVar[str] = "classification"
    forms: ClassVar[tuple[str, ...]] = ("image", "pair", "text")
    whole: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "f1", "matthews")
