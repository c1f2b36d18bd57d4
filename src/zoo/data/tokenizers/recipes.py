"""Recipes that train a tokenizer on texts; the same texts give the same tokenizer in every process."""

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from zoo.registry import Slot

ROLES = ("pad", "unk", "start", "end", "separator", "extract", "mask")  # a trained tokenizer's ids 0-6
BRACKETED = dict(zip(ROLES, ("[PAD]", "[UNK]", "[CLS]", "[END]", "[SEP]", "[EXTRACT]", "[MASK]"), strict=True))
ANGLED = dict(zip(ROLES, ("<pad>", "<unk>", "<s>", "</s>", "<sep>", "<extract>", "<mask>"), strict=True))
SPACE = "▁"  # stands for the space before a word (SentencePiece's convention)
COVERAGE = 0.9995  # share of all written characters that an alphabet larger than half of the vocabulary covers


class TokenizerRecipe(ABC):
    """How a kind of tokenizer prepares texts and learns its vocabulary.

    Class attributes:
        role_tokens: how the seven roles are spelled, in the order of their ids.
        mask_takes_space: whether the mask token swallows the space before it, as a token with a space marker would.
    """

    role_tokens: ClassVar[Mapping[str, str]] = ANGLED
    mask_takes_space: ClassVar[bool] = False

    def __init__(self, vocab_size: int, lowercase: bool, min_frequency: int, alphabet: int = 1) -> None:
        """Keep the options.

        Args:
            alphabet: the fewest tokens beside the roles that the kind can do with.

        Raises:
            ValueError: an option is too small.
        """
        check_option(vocab_size, len(ROLES) + alphabet, "vocab_size")
        check_option(min_frequency, 1, "min_frequency")
        self.vocab_size = vocab_size
        self.lowercase = lowercase
        self.min_frequency = min_frequency

    @abstractmethod
    def pipeline(self, model: models.Model) -> Backend:
        """A backend with this recipe's normalizer, pre-tokenizer and decoder around a model."""

    @abstractmethod
    def learn(self, texts: list[str]) -> models.Model:
        """The model learned from texts, with the roles as its first ids."""

    def train(self, texts: Iterable[str]) -> Backend:
        """Learn a tokenizer from texts.

        Raises:
            ValueError: there is no text.
        """
        texts = list(texts)
        if not any(texts):
            raise ValueError("tokenizer: there is no text to train it on (every text is empty)")
        backend = self.pipeline(self.learn(texts))
        backend.add_special_tokens([role_token(t, self.takes_space(role)) for role, t in self.role_tokens.items()])
        return backend

    def takes_space(self, role: str) -> bool:
        return role == "mask" and self.mask_takes_space


tokenizers: Slot[TokenizerRecipe] = Slot("tokenizer")


@tokenizers.register("wordpiece")
class WordPiece(TokenizerRecipe):
    """BERT's tokenizer: words and punctuation apart, words in pieces of which all but the first begin with `##`.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3 and its `BasicTokenizer`; lowercasing also strips accents,
    which takes Korean syllables apart into letters.

    Args:
        vocab_size: the most tokens, roles included.
        min_frequency: how often two pieces must meet to become one.
    """

    role_tokens = BRACKETED

    def __init__(self, *, vocab_size: int = 30000, lowercase: bool = True, min_frequency: int = 2) -> None:
        super().__init__(vocab_size, lowercase, min_frequency)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        backend.normalizer = normalizers.BertNormalizer(lowercase=self.lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
        return backend

    def learn(self, texts: list[str]) -> models.Model:
        unk = self.role_tokens["unk"]
        scratch = self.pipeline(models.WordPiece({}, unk_token=unk))
        counts = count_characters(scratch, texts)
        forms = {c: form for c in counts if (form := self.forms(scratch, c))}
        letters = choose_letters(counts, {c: len(form) for c, form in forms.items()}, self.vocab_size - len(ROLES))
        alphabet = sorted(token for c in letters for token in forms[c])
        # The trainer numbers `##` letters in the order of a hash table, which differs between processes, and its merges
        # follow those numbers. Letters given as special tokens have fixed ones; the model built below has no specials.
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_frequency,
            special_tokens=[*self.role_tokens.values(), *alphabet],
            initial_alphabet=letters,
            limit_alphabet=len(letters),
            show_progress=False,
        )
        scratch.train_from_iterator(texts, trainer, length=len(texts))
        return models.WordPiece(scratch.get_vocab(), unk_token=unk)

    def forms(self, backend: Backend, character: str) -> list[str]:
        """The tokens a character needs: none for space, `##` only where it can continue a word (punctuation cannot)."""
        words = backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str("a" + character))
        if len(words) > 1:
            return [character]
        return [character, "##" + character] if words[0][0] != "a" else []


@tokenizers.register("bpe")
class BPE(TokenizerRecipe):
    """Byte-pair encoding of characters, one vocabulary for all languages it is trained on; `▁` stands for a space.

    Decoding gives the text back up to runs of whitespace. Punctuation never merges with letters.
    Source: Sennrich et al. 2016, arXiv:1508.07909; the space marker is SentencePiece's (arXiv:1808.06226).

    Args:
        vocab_size: the most tokens, roles included.
        min_frequency: how often two tokens must meet to become one.
    """

    mask_takes_space = True

    def __init__(self, *, vocab_size: int = 8000, lowercase: bool = False, min_frequency: int = 2) -> None:
        super().__init__(vocab_size, lowercase, min_frequency, alphabet=2)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        lower = [normalizers.Lowercase()] if self.lowercase else []
        spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip(left=False, right=True)]
        backend.normalizer = normalizers.Sequence([*lower, *spaces])
        # "first": what follows a mask token typed inside a text has its own space, or none
        metaspace = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first")
        backend.pre_tokenizer = pre_tokenizers.Sequence([metaspace, pre_tokenizers.Punctuation("isolated")])
        backend.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="first")
        return backend

    def learn(self, texts: list[str]) -> models.Model:
        scratch = self.pipeline(models.BPE(unk_token=self.role_tokens["unk"]))
        counts = count_characters(scratch, texts)
        del counts[SPACE]  # it is in the alphabet whether a text writes it or not
        letters = choose_letters(counts, dict.fromkeys(counts, 1), self.vocab_size - len(ROLES) - 1)
        return merge_pairs(self, scratch, texts, [*letters, SPACE])


@tokenizers.register("byte_bpe")
class ByteBPE(TokenizerRecipe):
    """GPT-2's tokenizer: byte-pair encoding of bytes, so that every text can be written and comes back exactly.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2.

    Args:
        vocab_size: the most tokens, roles and the 256 bytes included.
        min_frequency: how often two tokens must meet to become one.
    """

    mask_takes_space = True

    def __init__(self, *, vocab_size: int = 32000, lowercase: bool = False, min_frequency: int = 2) -> None:
        super().__init__(vocab_size, lowercase, min_frequency, alphabet=256)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        if self.lowercase:
            backend.normalizer = normalizers.Lowercase()
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        return backend

    def learn(self, texts: list[str]) -> models.Model:
        return merge_pairs(self, self.pipeline(models.BPE()), texts, pre_tokenizers.ByteLevel.alphabet())


@tokenizers.register("characters")
class Characters(TokenizerRecipe):
    """One token for each character, whitespace included, in the order of their code points.

    Args:
        vocab_size: the most tokens, roles included; None keeps every character.
        min_frequency: how often a character must be written to be kept.
    """

    def __init__(self, *, vocab_size: int | None = None, lowercase: bool = False, min_frequency: int = 1) -> None:
        super().__init__(sys.maxsize if vocab_size is None else vocab_size, lowercase, min_frequency)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        if self.lowercase:
            backend.normalizer = normalizers.Lowercase()
        backend.decoder = decoders.Fuse()
        return backend

    def learn(self, texts: list[str]) -> models.Model:
        unk = self.role_tokens["unk"]
        counts = count_characters(self.pipeline(models.BPE()), texts)
        frequent = [c for c in by_frequency(counts) if counts[c] >= self.min_frequency]
        tokens = [*self.role_tokens.values(), *sorted(frequent[: self.vocab_size - len(ROLES)])]
        return models.BPE({token: i for i, token in enumerate(tokens)}, [], unk_token=unk)  # it merges nothing


def merge_pairs(recipe: TokenizerRecipe, scratch: Backend, texts: list[str], alphabet: list[str]) -> models.Model:
    """Learn byte-pair merges over a given alphabet; characters outside it are left out."""
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocab_size,
        min_frequency=recipe.min_frequency,
        special_tokens=list(recipe.role_tokens.values()),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    scratch.train_from_iterator(texts, trainer, length=len(texts))
    model: models.Model = scratch.model
    return model


def count_characters(backend: Backend, texts: Iterable[str]) -> Counter[str]:
    """How often each character is written, after the backend's normalizer (which works character by character)."""
    written: Counter[str] = Counter()
    for text in texts:
        written.update(text)
    counts: Counter[str] = Counter()
    for character, count in written.items():
        normal = backend.normalizer.normalize_str(character) if backend.normalizer else character
        for part in normal:
            counts[part] += count
    return counts


def choose_letters(counts: Mapping[str, int], costs: Mapping[str, int], room: int) -> list[str]:
    """The most frequent characters that fit in `room` tokens; beyond half of it only those that COVERAGE needs.

    Args:
        costs: by character to choose from, how many tokens it takes.
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
    return sorted(counts, key=lambda character: (-counts[character], character))


def role_token(token: str, takes_space: bool = False) -> AddedToken:
    """A token that is matched as it is spelled, before any normalizing."""
    return AddedToken(token, special=True, normalized=False, lstrip=takes_space)


def check_option(value: int, smallest: int, option: str) -> None:
    if value < smallest:
        raise ValueError(f"tokenizer.{option}: expected a whole number of at least {smallest}, got {value}")
