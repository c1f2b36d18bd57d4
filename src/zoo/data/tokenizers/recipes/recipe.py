"""The contract of recipes, which train a tokenizer: the same texts give the same tokenizer in every process."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

from tokenizers import AddedToken, models, normalizers, trainers
from tokenizers import Tokenizer as Backend

from zoo.data.ids import ROLES
from zoo.data.long_texts import split_text
from zoo.registry import Slot

BRACKETED = dict(zip(ROLES, ("[PAD]", "[UNK]", "[CLS]", "[END]", "[SEP]", "[EXTRACT]", "[MASK]"), strict=True))
ANGLED = dict(zip(ROLES, ("<pad>", "<unk>", "<s>", "</s>", "<sep>", "<extract>", "<mask>"), strict=True))
SPACE = "▁"  # stands for the space before a word (SentencePiece's convention)
COVERAGE = 0.9995  # share of the texts' characters that suffices for an alphabet of over half the vocabulary
BATCH = 1 << 20  # characters passed to a trainer at once; a longer text is cut before a space
NormalForm = Literal["none", "nfc", "nfd", "nfkc", "nfkd"]


class TokenizerRecipe(ABC):
    """How a kind of tokenizer prepares texts and learns its vocabulary.

    Class attributes:
        role_tokens: the spellings of the seven roles, in the order of their ids.
        mask_takes_space: whether the mask token includes the space before it, as a token with a space marker would.
    """

    role_tokens: ClassVar[Mapping[str, str]] = ANGLED
    mask_takes_space: ClassVar[bool] = False

    def __init__(
        self, vocab_size: int, lowercase: bool, normalization: NormalForm, min_frequency: int = 1, alphabet: int = 1
    ) -> None:
        """Keep the options.

        Args:
            normalization: the Unicode form that texts are converted to (Unicode Standard Annex 15); none: no
                conversion.
            alphabet: the minimum number of tokens, besides the roles, that this kind needs.

        Raises:
            ValueError: an option is too small.
        """
        check_option(vocab_size, len(ROLES) + alphabet, "vocab_size")
        check_option(min_frequency, 1, "min_frequency")
        self.vocab_size = vocab_size
        self.lowercase = lowercase
        self.min_frequency = min_frequency
        self.form = None if normalization == "none" else getattr(normalizers, normalization.upper())()

    @abstractmethod
    def pipeline(self, model: models.Model) -> Backend:
        """A backend with this recipe's normalizer, pre-tokenizer and decoder around a model."""

    @abstractmethod
    def learn(self, texts: Iterable[str]) -> models.Model:
        """Learn the model from texts; the roles have its first ids."""

    def train(self, texts: Iterable[str]) -> Backend:
        """Train a tokenizer on texts, which need not fit into memory.

        Args:
            texts: an iterable that can be iterated more than once, so not an iterator.

        Raises:
            ValueError: there is no text.
        """
        assert iter(texts) is not texts, "an iterator is at its end after one pass"
        if not any(texts):
            raise ValueError("tokenizer: there is no text to train it on (every text is empty)")
        backend = self.pipeline(self.learn(texts))
        tokens = self.role_tokens.items()
        backend.add_special_tokens([role_token(t, role == "mask" and self.mask_takes_space) for role, t in tokens])
        return backend

    def normalizer(self, *steps: normalizers.Normalizer) -> normalizers.Normalizer | None:
        """The recipe's Unicode form, then the steps; then the form again if lowercasing, which may decompose, is on."""
        form = [] if self.form is None else [self.form]
        every = [*form, *steps, *(form if self.lowercase else [])]
        return normalizers.Sequence(every) if every else None

    def lower(self) -> list[normalizers.Normalizer]:
        """The lowercasing step, if the recipe has one."""
        return [normalizers.Lowercase()] if self.lowercase else []

    def count_characters(self, texts: Iterable[str]) -> Counter[str]:
        """How often each character occurs in the normalized texts."""
        return self.normalized(self.written(texts))

    def written(self, texts: Iterable[str]) -> Counter[str]:
        """How often each character occurs in the texts, in the recipe's Unicode form.

        The form composes characters, so it needs whole texts; all other steps work on single characters.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text if self.form is None else self.form.normalize_str(text))
        return counts

    def normalized(self, written: Mapping[str, int]) -> Counter[str]:
        """How often each character occurs after normalizing, given the counts before."""
        normalizer = self.pipeline(models.BPE()).normalizer
        counts: Counter[str] = Counter()
        for character, count in written.items():
            for part in normalizer.normalize_str(character) if normalizer else character:
                counts[part] += count
        return counts


tokenizers: Slot[TokenizerRecipe] = Slot("tokenizer")


def in_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in batches for trainers: many short texts together, long ones in parts."""
    batch: list[str] = []
    size = 0
    for text in texts:
        for part in split_text(text, BATCH):
            batch.append(part)
            size += len(part)
            if size >= BATCH:
                yield batch
                batch, size = [], 0
    yield batch


def merge_pairs(
    recipe: TokenizerRecipe, scratch: Backend, texts: Iterable[str], alphabet: list[str], ahead: Iterable[str] = ()
) -> models.Model:
    """Learn byte-pair merges over a given alphabet; characters outside it are left out.

    Args:
        ahead: tokens with ids between the roles and the alphabet, which are never merged.
    """
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocab_size,
        min_frequency=recipe.min_frequency,
        special_tokens=[*recipe.role_tokens.values(), *ahead],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    scratch.train_from_iterator(in_batches(texts), trainer)
    model: models.Model = scratch.model
    return model


def choose_letters(counts: Mapping[str, int], costs: Mapping[str, int], room: int) -> list[str]:
    """The most frequent characters that fit into `room` tokens; beyond half of it, only those that COVERAGE needs.

    Args:
        costs: the characters to choose from -> how many tokens each takes.
    """
    written = {character: counts[character] for character in costs}
    needed = COVERAGE * sum(written.values())
    chosen, size, covered = [], 0, 0
    for character in by_frequency(written):
        size += costs[character]
        if size > room or (2 * size > room and covered >= needed):
            break
        covered += counts[character]
        chosen.append(character)
    return sorted(chosen)


def by_frequency(counts: Mapping[str, int]) -> list[str]:
    """The characters, most frequent first; ties by code point, so that every process has the same order."""
    return sorted(counts, key=lambda character: (-counts[character], character))


def role_token(token: str, takes_space: bool = False) -> AddedToken:
    """A token that is matched as it is spelled, before normalization."""
    return AddedToken(token, special=True, normalized=False, lstrip=takes_space)


def check_option(value: int, smallest: int, option: str) -> None:
    if value < smallest:
        raise ValueError(f"tokenizer.{option}: expected a whole number of at least {smallest}, got {value}")
