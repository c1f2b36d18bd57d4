"""config.json of a model in zoo's classes: zoo's settings, and the fields that transformers' tools ask for."""

from typing import Any

from transformers import PreTrainedConfig

from zoo.hub.targets.zoo_target import MODEL_TYPE, SETTINGS, image_size, read_settings
from zoo.models.settings import ModelSettings


class ZooConfig(PreTrainedConfig):  # type: ignore[misc]
    """Settings as plain data; every other field that transformers asks for is computed from them.

    Args:
        settings: settings of the model, as in a run's config.yaml.
        tie_word_embeddings: whether transformers ties the tensors that parts of the model share.
    """

    model_type = MODEL_TYPE
    settings: dict[str, Any] | None = None
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self, **rest: Any) -> None:
        super().__post_init__(**rest)
        if self.settings is not None:  # transformers also builds empty configs, to find the defaults
            self.is_encoder_decoder = len(self.model_settings.parts) > 1

    @property
    def model_settings(self) -> ModelSettings:
        """The parsed settings.

        Raises:
            ValueError: they are missing or damaged.
        """
        return read_settings(self.settings, f"config.json: {SETTINGS}")

    @property
    def image_size(self) -> int | None:
        """Side of the square images that the model reads (pixels); None: it reads tokens."""
        encoder = self.model_settings.encoder
        return None if encoder is None else image_size(encoder)

    # The names below are transformers' own. `generate`, Trainer and serving engines read them from every config.
    @property
    def vocab_size(self) -> Any:
        return self.stream.vocab_size

    @property
    def hidden_size(self) -> Any:
        return self.stream.d_model

    @property
    def num_hidden_layers(self) -> Any:
        return self.stream.n_layers

    @property
    def max_position_embeddings(self) -> Any:
        return self.stream.max_length

    @property
    def stream(self) -> Any:
        """The settings of the last part, whose hidden states the heads score."""
        return [*self.model_settings.parts.values()][-1].settings
