"""Toy tasks whose answer is a tag for each word, or a class, a number or a part of a text."""

from random import Random

from toys import LETTERS, Tree, different, some, toy

BLIND = {"encoder.attention.window": 1}  # a position sees itself alone
UNORDERED = {"encoder.position": "none"}
CUT = {"task.longest": 5}  # three words are left of a text
ALONE = {"encoder.mixer": {"name": "convolution", "kernel": 1}}


@toy("tagging", "accuracy", BLIND)
def partner(random: Random) -> Tree:
    """The digit of the other word with the same letter."""
    words = [f"{key}{random.randint(0, 3)}" for key in random.sample("abcdef", random.randint(3, 5)) for _ in range(2)]
    tags = [words[at ^ 1][1] for at in range(len(words))]  # the two stand side by side before they are mixed
    order = random.sample(range(len(words)), len(words))
    return {"words": [words[at] for at in order], "tags": [tags[at] for at in order]}


@toy("tagging", "accuracy", UNORDERED)
def nearest(random: Random) -> Tree:
    """The letter that stands nearest, among dots; of two that are as near, none differs."""
    while True:
        words = ["."] * random.randint(8, 12)
        marked = sorted(random.sample(range(len(words)), random.randint(2, 3)))
        for at in marked:
            words[at] = random.choice("abcd")
        least = [min(abs(n - at) for at in marked) for n in range(len(words))]
        near = [{words[at] for at in marked if abs(n - at) == most} for n, most in enumerate(least)]
        if all(len(found) == 1 for found in near):
            return {"words": words, "tags": [found.pop() for found in near]}


@toy("tagging", "accuracy", UNORDERED)
def previous(random: Random) -> Tree:
    """The word before."""
    words = some(random, 5, 9)
    return {"words": words, "tags": ["none", *words[:-1]]}


@toy("tagging", "accuracy", ALONE, rows=(100, 1500))
def depth(random: Random) -> Tree:
    """How many brackets are open behind each."""
    words, tags, open_now = list[str](), list[str](), 0
    for _ in range(random.randint(8, 14)):
        up = open_now == 0 or (open_now < 4 and random.random() < 0.5)
        open_now += 1 if up else -1
        words.append("(" if up else ")")
        tags.append(str(open_now))
    return {"words": words, "tags": tags}


@toy("classification", "accuracy", CUT, rows=(100, 900))
def brackets(random: Random) -> Tree:
    """Whether brackets are closed in order."""
    pairs, right = random.randint(4, 7), random.random() < 0.5
    while True:
        words, open_now, least = random.sample("()" * pairs, 2 * pairs), 0, 0
        for word in words:
            open_now += 1 if word == "(" else -1
            least = min(least, open_now)
        if (least == 0) == right:
            return {"text": " ".join(words), "label": "closed" if right else "broken"}


@toy("classification", "accuracy", BLIND)
def same_letters(random: Random) -> Tree:
    """Whether two texts have the same letters."""
    one, same = different(random, 2, 3), random.random() < 0.5
    other = random.sample(one, len(one))
    if not same:
        other[0] = random.choice([letter for letter in LETTERS if letter not in one])
    return {"text": " ".join(one), "pair": " ".join(other), "label": "same" if same else "other"}


@toy("classification", "f1_micro", BLIND, labels="several", chance=0.5)
def which_letters(random: Random) -> Tree:
    """Which of four letters occur in a text."""
    words = some(random, 3, 6)
    return {"text": " ".join(words), "label": sorted(set(words) & set("abcd"))}


@toy("classification", "pearson", BLIND, labels="number", rows=(60, 800), chance=0.0)
def share(random: Random) -> Tree:
    """Which share of twelve words are x."""
    words = random.choices("xo", k=12)
    return {"text": " ".join(words), "label": words.count("x") / 12}


@toy({"similarity": {}}, "accuracy", {"decoder.attention.window": 1})
def similar(random: Random) -> Tree:
    """Whether two texts have the same letters, read in both orders."""
    return same_letters(random)


@toy("span", "exact_match", BLIND)
def asked_word(random: Random) -> Tree:
    """The word that begins with the letter that is asked for."""
    words = [f"{letter}{random.randint(0, 3)}" for letter in different(random, 5, 7)]
    at = random.randrange(len(words))
    answer = {"text": [words[at]], "answer_start": [3 * at]}
    return {"question": words[at][0], "context": " ".join(words), "answers": answer}


@toy("choice", "accuracy", BLIND)
def same_choice(random: Random) -> Tree:
    """Which of three texts has the letters of the first."""
    words, label = different(random, 3, 3), random.randrange(3)
    choices = [random.sample(words, 3) for _ in range(3)]
    for number, choice in enumerate(choices):
        if number != label:
            choice[random.randrange(3)] = random.choice([letter for letter in LETTERS if letter not in words])
    return {"context": " ".join(words), "choices": [" ".join(choice) for choice in choices], "label": label}
