"""The Python programs on a model card that load and use the model."""

from zoo.hub.exporting.samples import TEXTS
from zoo.hub.targets.declare.target import NativeClass
from zoo.objectives.label_losses import OneNumber, SeveralClasses

TEXT = TEXTS[0]
NEW_TOKENS = 20
OPEN_IMAGE = 'Image.open("picture.jpg")'
# pipeline task -> name of the pipeline's variable, and its call; transformers 5 has no translation pipeline
# texts are truncated to the model's length, which the tagging pipeline does by itself; masks come early, so they stay
PIPELINES = {
    "text-classification": ("classify", "classify({given}, truncation=True)"),
    "token-classification": ("tag", 'tag({given}, aggregation_strategy="first")'),
    "text-generation": (
        "generate",
        'generate("{beginning}", max_new_tokens={new_tokens}, handle_long_generation="hole")[0]["generated_text"]',
    ),
    "fill-mask": (
        "fill",
        'fill(f"A {{fill.tokenizer.mask_token}} boy in a red shirt.", tokenizer_kwargs={{"truncation": True}})',
    ),
    "image-classification": ("classify", 'classify("picture.jpg")'),
}
# pipeline task -> inputs and call of a model loaded by its class; models of other tasks are only loaded
WRITE = ("tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)",)
USES = {
    "translation": ('tokenizer(["{text}"], truncation=True, return_tensors="pt")', *WRITE),
    "image-to-text": (f'processor({OPEN_IMAGE}, return_tensors="pt")', *WRITE),
    "image-classification": (
        f'processor({OPEN_IMAGE}, return_tensors="pt")',
        "model.config.id2label[int(model(**inputs).logits[0].argmax())]",
    ),
}
SEVERAL, NUMBER = SeveralClasses.problem, OneNumber.problem
CHAT = "chat"  # the kind of a model that continues conversations, not texts
# (pipeline task, problem type other than one class, or CHAT) -> call of the pipeline, and of a model loaded by class
BY_KIND = {
    ("text-generation", CHAT): (
        'generate([{{"role": "user", "content": "{text}"}}], max_new_tokens={new_tokens}, '
        'handle_long_generation="hole")[0]["generated_text"][-1]["content"]',
        "",
    ),
    ("text-classification", SEVERAL): (
        '[one for one in classify({given}, top_k=None, truncation=True) if one["score"] > 0.5]',
        "",
    ),
    ("text-classification", NUMBER): ('classify({given}, top_k=1, truncation=True)[0]["score"]', ""),
    ("image-classification", SEVERAL): (
        '[one for one in classify("picture.jpg", top_k=classify.model.config.num_labels) if one["score"] > 0.5]',
        "[model.config.id2label[i] for i, logit in enumerate(model(**inputs).logits[0]) if logit > 0]",
    ),
    # before transformers 5.23 the pipeline treated a single number as the logit of a class
    ("image-classification", NUMBER): (
        'classify("picture.jpg", function_to_apply="none")[0]["score"]',
        "model(**inputs).logits.item()",
    ),
}
SILENCE = "logging.set_verbosity_error()  # this pipeline would warn of the folder's heads that it does not use"


def snippets(
    native: NativeClass,
    address: str,
    pairs: bool,
    imports: str = "",
    tokenizer: bool = True,
    kind: str = "",
    max_new_tokens: int = NEW_TOKENS,
) -> list[str]:
    """Programs that show how to use a model: by its pipeline, if it has one, and by its class.

    Args:
        address: address of the model: a folder, or `org/name`.
        pairs: whether it reads two texts.
        imports: the module with its classes, if they are not transformers' own.
        tokenizer: whether there is one; without it, the model reads only ids or images.
        kind: of a classifier, the problem type in config.json; of a generator, CHAT if it answers conversations.
        max_new_tokens: of a generator, the most new tokens that fit after a prompt.
    """
    task = native.pipeline if tokenizer or not native.text else None
    given = f'{{"text": "{TEXT}", "text_pair": "{TEXTS[4]}"}}' if pairs else f'"{TEXT}"'
    words = {
        "given": given,
        "beginning": TEXT.rsplit(" ", 3)[0],
        "text": TEXT,
        "new_tokens": min(NEW_TOKENS, max_new_tokens),
    }
    programs = [pipeline_program(task, address, len(native.heads) > 1, kind)] if task in PIPELINES else []
    programs.append(class_program(native, task, address, tokenizer, kind))
    first = [f"import {imports}  # registers these classes with transformers"] if imports else []
    return ["\n".join([*first, *program]).format(**words) for program in programs]


def pipeline_program(task: str, address: str, quietly: bool, kind: str) -> list[str]:
    """A program that uses a model by its pipeline."""
    name, use = PIPELINES[task]
    use, _ = BY_KIND.get((task, kind), (use, ""))
    lines = [f"from transformers import {'logging, ' * quietly}pipeline", "", *[SILENCE] * quietly]
    return [*lines, f'{name} = pipeline("{task}", model="{address}")', f"print({use})"]


def class_program(native: NativeClass, task: str | None, address: str, tokenizer: bool, kind: str) -> list[str]:
    """A program that loads a model by its class, and uses it."""
    inputs, use = USES.get(task or "", ("", ""))
    _, use = BY_KIND.get((task or "", kind), ("", use))
    files = {"processor": "AutoImageProcessor"} if OPEN_IMAGE in inputs else {}
    files |= {"tokenizer": "AutoTokenizer"} if tokenizer else {}
    lines = ["from PIL import Image"] if OPEN_IMAGE in inputs else []
    lines += [f"from transformers import {', '.join([native.auto, *files.values()])}", ""]
    lines += [f'{name} = {auto}.from_pretrained("{address}")' for name, auto in {**files, "model": native.auto}.items()]
    if task is None and not tokenizer:
        lines[-1] += "  # it has no tokenizer, and reads token ids"
    return lines + [f"inputs = {inputs}", f"print({use})"] * bool(use)
