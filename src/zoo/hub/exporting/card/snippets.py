"""The lines of Python on a model card that load and use a model."""

from zoo.hub.exporting.samples import TEXTS
from zoo.hub.targets.declare.target import NativeClass

TEXT = TEXTS[0]
CLASSIFY = """from transformers import pipeline

classify = pipeline("text-classification", model="{address}")
print(classify({given}))"""
GENERATE = """from transformers import pipeline

generate = pipeline("text-generation", model="{address}")
print(generate("{beginning}", max_new_tokens=20)[0]["generated_text"])"""
QUIETLY = """import logging, pipeline

logging.set_verbosity_error()  # this pipeline does not read every head of the folder, of which it would warn
"""
FILL = """from transformers import pipeline

fill = pipeline("fill-mask", model="{address}")
print(fill(f"A small boy in a {{fill.tokenizer.mask_token}} shirt."))"""
CLASSIFY_PICTURE = """from transformers import pipeline

classify = pipeline("image-classification", model="{address}")
print(classify("picture.jpg"))"""
LOAD = """from transformers import {auto}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{address}")
model = {auto}.from_pretrained("{address}")"""
LOAD_ALONE = """from transformers import {auto}

model = {auto}.from_pretrained("{address}")  # it has no tokenizer, and reads token ids"""
LOAD_PICTURES = """from PIL import Image
from transformers import {auto}, AutoImageProcessor

processor = AutoImageProcessor.from_pretrained("{address}")
model = {auto}.from_pretrained("{address}")
inputs = processor(Image.open("picture.jpg"), return_tensors="pt")"""
TRANSLATE = """inputs = tokenizer(["{text}"], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))"""
SCORE_PICTURE = """scores = model(**inputs).logits[0].softmax(-1)
print(model.config.id2label[int(scores.argmax())])"""
CAPTION = """from PIL import Image
from transformers import {auto}, AutoImageProcessor, AutoTokenizer

processor = AutoImageProcessor.from_pretrained("{address}")
tokenizer = AutoTokenizer.from_pretrained("{address}")
model = {auto}.from_pretrained("{address}")
inputs = processor(Image.open("picture.jpg"), return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))"""
IMPORT = """import {imports}  # transformers knows these classes from here on
"""
# by the name of the task in pipelines; translation has no pipeline any more
PIPELINES = {
    "text-classification": CLASSIFY,
    "text-generation": GENERATE,
    "fill-mask": FILL,
    "image-classification": CLASSIFY_PICTURE,
}
LOADING = {
    "translation": (LOAD, TRANSLATE),
    "image-classification": (LOAD_PICTURES, SCORE_PICTURE),
    "image-to-text": (CAPTION,),
}
PICTURES = ("image-classification",)  # tasks for which no tokenizer is needed


def snippets(native: NativeClass, address: str, pairs: bool, imports: str = "", tokenizer: bool = True) -> list[str]:
    """Programs that show how a model is used: by its pipeline, where it has one, and by its classes.

    Args:
        address: of the model: a folder, or `org/name`.
        pairs: whether it reads two texts.
        imports: the module with its classes, where they are not transformers' own.
        tokenizer: whether there is one; without, nothing but ids, or pictures, can be read.
    """
    given = f'{{"text": "{TEXT}", "text_pair": "{TEXTS[4]}"}}' if pairs else f'"{TEXT}"'
    words = {"address": address, "given": given, "beginning": TEXT.rsplit(" ", 3)[0], "text": TEXT, "auto": native.auto}
    task = native.pipeline if tokenizer or native.pipeline in PICTURES else None
    loaded = LOADING.get(task or "", (LOAD if tokenizer else LOAD_ALONE,))
    piped = [PIPELINES[task]] if task in PIPELINES else []
    piped = [text.replace("import pipeline\n", QUIETLY) if len(native.heads) > 1 else text for text in piped]
    programs = [*(text.format(**words) for text in piped), "\n".join(text.format(**words) for text in loaded)]
    return [IMPORT.format(imports=imports) + program if imports else program for program in programs]
