"""What an import found, for the user."""

from dataclasses import dataclass
from pathlib import Path

from zoo.wording import first_few


@dataclass(frozen=True)
class ImportReport:
    """What was imported.

    Args:
        run: the new run.
        target, class_name: what the folder was read as.
        initialized: parts that are missing from the folder and newly initialized.
        untrained: heads that were newly initialized when the folder was exported, and have not been trained.
        dropped: modules of the folder that the model does not have.
        no_tokenizer: why there is no tokenizer; empty if there is one, or if the model reads no text.
        special_tokens: those that its tokenizer adds to texts, and their types, where zoo has others.
        tokenizer_options: what transformers makes of sample texts by tokenizer_config.json, where tokenizer.json says
            otherwise.
        lacking_tokens: tokens that transformers adds to the tokenizer, and tokenizer.json lacks.
        padding_in_texts: the padding token, if texts may end with it, where transformers' class skips it.
        unsupported_generation: keys of the folder that affect generated texts and that zoo has no setting for.
        raw_numbers: heads that predict a number, whose sigmoid transformers' pipeline gives.
        ignored: keys that ask to run code from the folder.
    """

    run: Path
    target: str
    class_name: str
    parameters: int
    initialized: tuple[str, ...]
    untrained: tuple[str, ...]
    dropped: tuple[str, ...]
    no_tokenizer: tuple[str, ...]
    special_tokens: tuple[str, ...]
    tokenizer_options: tuple[str, ...]
    lacking_tokens: tuple[str, ...]
    padding_in_texts: tuple[str, ...]
    unsupported_generation: tuple[str, ...]
    raw_numbers: tuple[str, ...]
    ignored: tuple[str, ...]

    def remarks(self) -> list[str]:
        """What a user should know before using the model, one line each."""
        lacking = first_few(self.lacking_tokens)
        found = {
            "newly initialized (missing from the checkpoint)": self.initialized,
            "newly initialized, never trained before the export": self.untrained,
            f"left out, since {self.class_name} has no such tensor": self.dropped,
            "no tokenizer, so the model reads token ids only": self.no_tokenizer,
            "its tokenizer adds special tokens, or types of tokens, in another way than zoo": self.special_tokens,
            "zoo follows tokenizer.json; transformers follows tokenizer_config.json and gives": self.tokenizer_options,
            "added tokens that tokenizer.json lacks, so zoo splits them": lacking and [lacking],
            "padding to transformers' class, which skips it at the end of a text": self.padding_in_texts,
            "generation settings that zoo lacks": self.unsupported_generation,
            "one label and no problem_type, so zoo predicts the number itself, transformers' pipeline its sigmoid": (
                self.raw_numbers
            ),
            "ignored, since zoo runs no code of a checkpoint": self.ignored,
        }
        return [f"{what}: {', '.join(names)}" for what, names in found.items() if names]

    def lines(self) -> list[str]:
        """The report as a terminal shows it."""
        return [f"{self.run}: {self.class_name} ({self.target}), {self.parameters:,} parameters", *self.remarks()]
