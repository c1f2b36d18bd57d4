"""The lines of Python on a model card that load and use a model."""

from zoo.hub.samples import TEXTS
from zoo.hub.target import NativeClass

TEXT = TEXTS[0]
CLASSIFY = """from transformers import pipeline

classify = pipeline("text-classification", model="{address}")
print(classify({given}))"""
GENERATE = """from transformers import pipeline

generate = pipeline("text-generation", model="{address}")
print(generate("{beginning}", max_new_tokens=20)[0]["generated_text"])"""
FILL = """from transformers import pipeline

fill = pipeline("fill-mask", model="{address}")
print(fill(f"A small boy in a {{fill.tokenizer.mask_token}} shirt."))"""
LOAD = """from transformers import {auto}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{address}")
model = {auto}.from_pretrained("{address}")"""
TRANSLATE = """inputs = tokenizer(["{text}"], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))"""
IMPORT = """import {imports}  # transformers knows these classes from here on
"""
# by the name of the task in pipelines; translation has no pipeline any more
PIPELINES = {"text-classification": CLASSIFY, "text-generation": GENERATE, "fill-mask": FILL}
AFTER_LOADING = {"translation": TRANSLATE}


def snippets(chosen: NativeClass, address: str, pairs: bool, imports: str = "") -> list[str]:
    """Programs that show how a model is used: by its pipeline, where it has one, and by its classes.

    Args:
        address: of the model: a folder, or `org/name`.
        pairs: whether it reads two texts.
        imports: the module with its classes, where they are not transformers' own.
    """
    given = f'{{"text": "{TEXT}", "text_pair": "{TEXTS[4]}"}}' if pairs else f'"{TEXT}"'
    words = {"address": address, "given": given, "beginning": TEXT.rsplit(" ", 3)[0], "text": TEXT, "auto": chosen.auto}
    loaded = [LOAD, AFTER_LOADING[chosen.pipeline]] if chosen.pipeline in AFTER_LOADING else [LOAD]
    piped = [PIPELINES[chosen.pipeline]] if chosen.pipeline in PIPELINES else []
    programs = [*(text.format(**words) for text in piped), "\n".join(text.format(**words) for text in loaded)]
    return [IMPORT.format(imports=imports) + program if imports else program for program in programs]
