"""The lines of Python on a model card that load and use a model."""

from zoo.hub.exporting.samples import TEXTS
from zoo.hub.targets.declare.target import NativeClass

TEXT = TEXTS[0]
PICTURE = 'Image.open("picture.jpg")'
# by the name of the task in pipelines, what its pipeline is called and how it is used; translation has none any more
PIPELINES = {
    "text-classification": ("classify", "classify({given})"),
    "token-classification": ("tag", 'tag({given}, aggregation_strategy="first")'),
    "text-generation": ("generate", 'generate("{beginning}", max_new_tokens=20)[0]["generated_text"]'),
    "fill-mask": ("fill", 'fill(f"A small boy in a {{fill.tokenizer.mask_token}} shirt.")'),
    "image-classification": ("classify", 'classify("picture.jpg")'),
}
# by the same name, how a loaded model is used; the others say no more than how they are loaded
WRITE = ("tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)",)
USES = {
    "translation": ('tokenizer(["{text}"], return_tensors="pt")', *WRITE),
    "image-to-text": (f'processor({PICTURE}, return_tensors="pt")', *WRITE),
    "image-classification": (
        f'processor({PICTURE}, return_tensors="pt")',
        "model.config.id2label[int(model(**inputs).logits[0].argmax())]",
    ),
}
QUIETLY = (
    "logging.set_verbosity_error()  # this pipeline does not read every head of the folder, of which it would warn"
)


def snippets(native: NativeClass, address: str, pairs: bool, imports: str = "", tokenizer: bool = True) -> list[str]:
    """Programs that show how a model is used: by its pipeline, where it has one, and by its classes.

    Args:
        address: of the model: a folder, or `org/name`.
        pairs: whether it reads two texts.
        imports: the module with its classes, where they are not transformers' own.
        tokenizer: whether there is one; without, nothing but ids, or pictures, can be read.
    """
    task = native.pipeline if tokenizer or not native.text else None
    given = f'{{"text": "{TEXT}", "text_pair": "{TEXTS[4]}"}}' if pairs else f'"{TEXT}"'
    words = {"given": given, "beginning": TEXT.rsplit(" ", 3)[0], "text": TEXT}
    programs = [piped(task, address, len(native.heads) > 1)] if task in PIPELINES else []
    programs.append(loaded(native, task, address, tokenizer))
    first = [f"import {imports}  # transformers knows these classes from here on"] if imports else []
    return ["\n".join([*first, *program]).format(**words) for program in programs]


def piped(task: str, address: str, quietly: bool) -> list[str]:
    """A program that uses a model by its pipeline."""
    name, use = PIPELINES[task]
    lines = [f"from transformers import {'logging, ' * quietly}pipeline", "", *[QUIETLY] * quietly]
    return [*lines, f'{name} = pipeline("{task}", model="{address}")', f"print({use})"]


def loaded(native: NativeClass, task: str | None, address: str, tokenizer: bool) -> list[str]:
    """A program that loads a model by its class, and uses it."""
    inputs, use = USES.get(task or "", ("", ""))
    files = {"processor": "AutoImageProcessor"} if PICTURE in inputs else {}
    files |= {"tokenizer": "AutoTokenizer"} if tokenizer else {}
    lines = ["from PIL import Image"] if PICTURE in inputs else []
    lines += [f"from transformers import {', '.join([native.auto, *files.values()])}", ""]
    lines += [f'{name} = {auto}.from_pretrained("{address}")' for name, auto in {**files, "model": native.auto}.items()]
    if task is None and not tokenizer:
        lines[-1] += "  # it has no tokenizer, and reads token ids"
    return lines + [f"inputs = {inputs}", f"print({use})"] * bool(use)
