"""Objective `causal_lm`: predict each token from the tokens before it."""

from zoo.objectives.next_token import NextToken
from zoo.objectives.objective import objectives


@objectives.register("causal_lm")
class CausalLM(NextToken):
    """L1 = sum_i log p(u_i | u_1 … u_{i-1}), over a text; with a column `prompt`, only over the text after the prompt.

    With a column `messages`, only over the assistant's turns of a conversation.

    Source: Radford et al. 2018 (GPT), equation 1; with classification and a weight of 0.5 it is the L3 of equation 5.

    Args:
        label_smoothing: probability mass that is spread evenly over the vocabulary.
    """

    why = "in an encoder, each position sees the token that it should predict"
    prefers = ("chat", "prompted", "text")
    metrics = ("perplexity", "bits_per_byte", "bleu", "chrf", "sequence_accuracy")
