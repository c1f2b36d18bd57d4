"""WordPiece: words as pieces, of which all but the first are marked."""

import logging
import unicodedata
from collections.abc import Iterable, Mapping

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from zoo.data.ids import ROLES
from zoo.data.tokenizers.recipes.recipe import (
    BRACKETED,
    NormalForm,
    TokenizerRecipe,
    by_frequency,
    choose_letters,
    in_batches,
    tokenizers,
)

READ_WITHOUT = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "VARIATION")  # scripts that are readable without their marks
VOICED = "\u3099\u309a"  # voicing marks of kana, separate characters in NFD
FEW = 0.01  # share of all characters; below it, the marks are those of a few foreign words
logger = logging.getLogger(__name__)


@tokenizers.register("wordpiece")
class WordPiece(TokenizerRecipe):
    """BERT's tokenizer: splits off punctuation, and words into pieces of which all but the first begin with `##`.

    Lowercasing also strips accents, which decomposes Korean syllables into letters; `normalization: nfc` composes them
    again. Source: Devlin et al. 2019, arXiv:1810.04805, section 3 and its `BasicTokenizer`.

    Args:
        vocab_size: maximum number of tokens, roles included.
        min_frequency: how often two pieces must be adjacent to be merged.
    """

    role_tokens = BRACKETED

    def __init__(
        self,
        *,
        vocab_size: int = 30000,
        lowercase: bool = True,
        normalization: NormalForm = "none",
        min_frequency: int = 2,
    ) -> None:
        super().__init__(vocab_size, lowercase, normalization, min_frequency)

    def pipeline(self, model: models.Model) -> Backend:
        backend = Backend(model)
        backend.normalizer = self.normalizer(normalizers.BertNormalizer(lowercase=self.lowercase))
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
        return backend

    def learn(self, texts: Iterable[str]) -> models.Model:
        unk = self.role_tokens["unk"]
        scratch = self.pipeline(models.WordPiece({}, unk_token=unk))
        written = self.written(texts)
        if self.lowercase:
            report_marks(written)
        counts = self.normalized(written)
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
        scratch.train_from_iterator(in_batches(texts), trainer)
        return models.WordPiece(scratch.get_vocab(), unk_token=unk)

    def forms(self, backend: Backend, character: str) -> list[str]:
        """The tokens that a character needs: none for a space, a `##` form only if it can continue a word."""
        words = backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str("a" + character))
        if len(words) > 1:
            return [character]
        return [character, "##" + character] if words[0][0] != "a" else []


def report_marks(written: Mapping[str, int]) -> None:
    """Warn if lowercasing strips marks that a script needs to be readable."""
    needed = {c: c in VOICED or not name_of(c).startswith(READ_WITHOUT) for c in written}
    marked = {c: count for c, count in written.items() if has_mark(c) and needed[c]}
    share = sum(marked.values()) / max(1, sum(written.values()))
    if share > FEW:
        said = "tokenizer: lowercase strips marks from %.1f %% of all characters, such as %s; to keep them, "
        said += "set task.tokenizer.lowercase to false"
        logger.warning(said, 100 * share, ", ".join(name_of(c) for c in by_frequency(marked)[:2]))


def has_mark(character: str) -> bool:
    return any(unicodedata.category(part) == "Mn" for part in unicodedata.normalize("NFD", character))


def name_of(character: str) -> str:
    return unicodedata.name(character, repr(character))
