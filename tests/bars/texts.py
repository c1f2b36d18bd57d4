"""Toy tasks whose answer is a text, a hidden word, or the position of a sentence; and pictures."""

from random import Random

from toys import COLORS, LETTERS, Tree, different, toy
from words import BLIND, UNORDERED

WRITTEN = {"generate": {"max_new_tokens": 24}}
EXACT = {"translation": {"label_smoothing": 0.0}}
PROMPTLESS = {"decoder.attention.window": 1}  # a position sees itself alone, so nothing of the prompt
NARROW = {"d_model": 4}  # too few numbers to tell the words apart


@toy(EXACT, "sequence_accuracy", UNORDERED, **WRITTEN)
def copy(random: Random) -> Tree:
    """The same letters again."""
    words = " ".join(different(random, 4, 6))
    return {"source": words, "target": words}


@toy("causal_lm", "sequence_accuracy", PROMPTLESS, **WRITTEN)
def reverse(random: Random) -> Tree:
    """The letters of the prompt, the last one first."""
    words = different(random, 4, 6)
    return {"prompt": " ".join([*words, "="]), "text": " ".join(words[::-1])}


@toy("causal_lm", "perplexity", PROMPTLESS, chance=1 / len(LETTERS))
def reverse_in_turns(random: Random) -> Tree:
    """The letters of a question, the last one first."""
    words = different(random, 4, 6)
    turns = (("user", words), ("assistant", words[::-1]))
    return {"messages": [{"role": role, "content": " ".join(said)} for role, said in turns]}


@toy("causal_lm", "sequence_accuracy", PROMPTLESS, **WRITTEN)
def sort(random: Random) -> Tree:
    """The letters of the prompt in their order."""
    words = different(random, 4, 6)
    return {"prompt": " ".join([*words, "="]), "text": " ".join(sorted(words))}


@toy(EXACT, "sequence_accuracy", UNORDERED, **WRITTEN)
def words_again(random: Random) -> Tree:
    """The same words again, made of syllables."""
    words = ["".join(random.choices(("ba", "do", "ki", "lu", "me"), k=2)) for _ in range(random.randint(2, 4))]
    return {"source": " ".join(words), "target": " ".join(words)}


@toy({"masked_lm": {"share": 0.1}}, "accuracy", BLIND)
def which_word(random: Random) -> Tree:
    """Which letter is hidden, in a text that has each one twice, side by side."""
    return {"text": " ".join(letter for letter in random.choices(LETTERS, k=5) for _ in range(2))}


@toy("replaced_token", "f1", BLIND, rows=(100, 800), chance=0.26)
def odd_one_out(random: Random) -> Tree:
    """Which tokens an untrained generator has replaced, in a text of one word again and again."""
    return {"text": " ".join(["".join(random.choices(LETTERS, k=2))] * random.randint(5, 20))}


def countdown(random: Random, of: str, low: int, high: int) -> Tree:
    """Two letters in turn, counted down; of few words, or training would not see all of them."""
    letters, length = random.sample(of, 2), random.randint(low, high)
    return {"text": " ".join(f"{letters[at % 2]}{length - at}" for at in range(length))}


@toy("prefix_lm", "perplexity", NARROW, rows=(20, 100), longest=36)
def the_rest(random: Random) -> Tree:
    """The rest of a text in which two letters take turns and are counted down."""
    return countdown(random, "abc", 12, 32)  # long: behind a single word nobody knows the second letter


@toy({"span_corruption": {"sentinels": 4}}, "perplexity", NARROW, rows=(30, 230), longest=32)
def missing_part(random: Random) -> Tree:
    """What is missing from a text in which two letters take turns and are counted down."""
    return countdown(random, "abcdef", 8, 16)


@toy("next_sentence", "accuracy", BLIND, rows=(200, 2000), longest=14, chance=0.5)
def second_sentence(random: Random) -> Tree:
    """Whether a sentence has the word of the one before it."""
    word = "".join(random.choices("abcdefghijkl", k=2))  # one token: also half a sentence, where a pair is cut, has it
    return {"text": "\n".join(" ".join([word] * random.randint(2, 3)) for _ in range(random.randint(2, 5)))}


@toy({"next_sentence": {"order": True}}, "accuracy", BLIND, longest=12, chance=0.5)
def order_of_sentences(random: Random) -> Tree:
    """Which of two sentences has the higher number."""
    start = random.randrange(20)
    return {"text": "\n".join(f"{random.choice('xyz')} n{start + at} {random.choice('xyz')}." for at in range(4))}


def noise(random: Random, side: int = 16) -> list[list[list[int]]]:
    """Gray pixels, each for itself."""
    return [[[random.randrange(90, 160)] * 3 for _ in range(side)] for _ in range(side)]


POINTWISE = {"encoder.stages": [{"name": "convolution", "width": 16, "kernel": 1}]}  # a position reads its own pixel


@toy("classification", "accuracy", POINTWISE, rows=(50, 400))
def stripes(random: Random) -> Tree:
    """Whether stripes lie or stand: each position alone looks alike."""
    pixels, lying, shift = noise(random), random.random() < 0.5, random.randrange(4)
    for y, row in enumerate(pixels):
        for x, pixel in enumerate(row):
            pixel[:] = [value + (60 if ((y if lying else x) + shift) % 4 < 2 else -60) for value in pixel]
    return {"image": pixels, "label": "lying" if lying else "standing"}


@toy({"captioning": {"label_smoothing": 0.0}}, "sequence_accuracy", POINTWISE, rows=(50, 400), **WRITTEN)
def caption(random: Random) -> Tree:
    """The color of a square, and on which side it is."""
    pixels, color, side = noise(random), random.choice(list(COLORS)), random.choice(("left", "right"))
    top, left = random.randrange(10), random.randrange(2) + (0 if side == "left" else 9)
    for row in pixels[top : top + 5]:
        row[left : left + 5] = [list(COLORS[color])] * 5
    return {"image": pixels, "text": f"a {color} square on the {side}"}
