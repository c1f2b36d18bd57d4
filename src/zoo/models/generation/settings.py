"""How text is generated: the `generate:` map of a task and of `--set`."""

from dataclasses import dataclass

from zoo import config
from zoo.registry import refuse_below
from zoo.strict_yaml import Tree

MAX_PENALTY = 5  # largest |length_penalty|: scores of texts of thousands of tokens stay in float32's range


@dataclass(frozen=True)
class GenerateSettings:
    """How text is generated.

    Args:
        max_new_tokens: the most tokens to generate, the end token included.
        temperature: logits are divided by it before sampling; 0: take the likeliest token; None: 1 if top_k or top_p is
            given, else 0.
        top_k: sample only from this many likeliest tokens.
        top_p: sample from the likeliest tokens that together have this probability.
        beams: number of beams; 1: no beam search.
        length_penalty: scores are the sum of log-probabilities divided by length ** length_penalty; from -5 to 5.
        seed: of sampling; a text's samples depend on the seed and the text's number, never on other texts of its batch.
        fast: use a CPU's fastest kernels for few vectors, with reordered copies of the weights, and CUDA graphs on a
            GPU, where that saves time; false: use neither. In bfloat16 on a CPU, texts may differ where two tokens are
            nearly as likely.
    """

    max_new_tokens: int = 100
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    beams: int = 1
    length_penalty: float = 1.0
    seed: int = 0
    fast: bool = True

    def __post_init__(self) -> None:
        refuse_below(1, max_new_tokens=self.max_new_tokens, top_k=self.top_k, beams=self.beams)
        refuse_below(0, temperature=self.temperature, seed=self.seed)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if not abs(self.length_penalty) <= MAX_PENALTY:
            raise ValueError(f"length_penalty must be from -{MAX_PENALTY} to {MAX_PENALTY}, got {self.length_penalty}")
        if self.samples and self.beams > 1:
            problem = "beams and sampling (temperature, top_k, top_p) do not combine"
            raise ValueError(f"{problem}; set beams to 1 or temperature to 0")
        if self.temperature == 0 and (self.top_k or self.top_p):
            raise ValueError("top_k and top_p need a temperature above 0")

    @property
    def samples(self) -> bool:
        if self.temperature is None:
            return self.top_k is not None or self.top_p is not None
        return self.temperature > 0


def parse_generate(tree: Tree) -> GenerateSettings:
    """Read a `generate:` map.

    Raises:
        ValueError: an unknown key, a wrong type or an invalid value.
    """
    return config.build(GenerateSettings, tree, "generate")
