"""Subwords by a unigram language model."""

import json
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from zoo.data.tokenizers.recipes.pieces import choose_alphabet, choose_bytes, pieces_pipeline
from zoo.data.tokenizers.recipes.recipe import NormalForm, TokenizerRecipe, in_batches, tokenizers

LONGEST = 16  # characters of a piece, as in SentencePiece
STEP = 1e-4  # difference between the scores that the trainer gives to successive unused characters
DIGITS = 4  # of a score; further ones depend on the order of summation, which differs between processes


@tokenizers.register("unigram")
class Unigram(TokenizerRecipe):
    """The most likely split of a word into pieces, each with its own probability; `▁` stands for a space.

    Training prunes a large vocabulary to the pieces that the likelihood of the texts needs most, which match stems and
    endings better than merges do. It takes more memory than training the other kinds.
    Source: Kudo 2018, arXiv:1804.10959, section 3.2; as in SentencePiece (arXiv:1808.06226), but punctuation is apart.

    Args:
        vocab_size: maximum number of tokens, roles and bytes included.
        byte_fallback: whether a character that has no token is encoded as its bytes, which take 256 tokens, and never
            as unknown; None: if the vocabulary has at least 1,024 tokens.
    """

    mask_takes_space = True

    def __init__(
        self,
        *,
        vocab_size: int = 8000,
        lowercase: bool = False,
        normalization: NormalForm = "none",
        byte_fallback: bool | None = None,
    ) -> None:
        self.bytes = choose_bytes(vocab_size, byte_fallback)
        super().__init__(vocab_size, lowercase, normalization, alphabet=len(self.bytes) + 2)

    def pipeline(self, model: models.Model) -> Backend:
        return pieces_pipeline(self, model, with_bytes=bool(self.bytes))

    def learn(self, texts: Iterable[str]) -> models.Model:
        roles, letters = list(self.role_tokens.values()), choose_alphabet(self, texts, len(self.bytes))
        trainer = trainers.UnigramTrainer(
            vocab_size=self.vocab_size - len(self.bytes),
            special_tokens=roles,
            unk_token=self.role_tokens["unk"],
            max_piece_length=LONGEST,
            show_progress=False,
        )
        scratch = self.pipeline(models.Unigram())
        scratch.pre_tokenizer = pre_tokenizers.Sequence([scratch.pre_tokenizer, without_others(letters)])
        scratch.train_from_iterator(in_batches(texts), trainer)
        scores: list[tuple[str, float]] = json.loads(scratch.to_str())["model"]["vocab"]  # log probabilities
        found = {piece: score for piece, score in scores if piece not in roles}
        fixed = [(token, 0.0) for token in (*roles, *self.bytes)]
        pieces = rank_pieces(found, frozenset(letters), self.vocab_size - len(fixed))
        return models.Unigram([*fixed, *pieces], roles.index(self.role_tokens["unk"]), bool(self.bytes))


def without_others(letters: Sequence[str]) -> pre_tokenizers.PreTokenizer:
    """A step that removes characters outside an alphabet, since the trainer adds every character that it meets."""
    known = "".join(rf"\x{{{ord(letter):x}}}" for letter in letters)
    return pre_tokenizers.Split(Regex(f"[^{known}]"), "removed")


def rank_pieces(found: Mapping[str, float], letters: frozenset[str], room: int) -> list[tuple[str, float]]:
    """The pieces that fit into the vocabulary, best first, with scores that are the same in every process.

    The trainer gives unused characters scores that rise by `STEP` from the smallest, in the order of a hash table; here
    all get the smallest score. Other scores differ between processes after the tenth digit. If the characters alone
    fill the vocabulary, the trainer exceeds its size, so pieces are cut to `room`.
    """
    smallest = min(found.values())
    unused = smallest + STEP * len(letters)
    known = {piece: smallest if piece in letters and score <= unused else score for piece, score in found.items()}
    ranked = sorted((piece not in letters, -round(score, DIGITS), piece) for piece, score in known.items())
    return sorted(((piece, -score) for _, score, piece in ranked[:room]), key=lambda each: (-each[1], each[0]))
