"""config.json of a model in the shell, as transformers reads it: our settings, and what its own tools ask for."""

from typing import Any

from transformers import PreTrainedConfig

from zoo.hub.targets.shell import MODEL_TYPE, SETTINGS, plain_settings, read_settings
from zoo.models.settings import ModelSettings


class ZooConfig(PreTrainedConfig):  # type: ignore[misc]
    """Settings as plain data; what transformers asks for beside them follows from them.

    Args:
        settings: of the model, as in config.yaml of a run.
        tie_word_embeddings: whether an encoder and a decoder that share token vectors do so.
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
        if self.settings is not None:  # transformers also makes configs of no model, to know the defaults
            self.is_encoder_decoder = len(self.model_settings.parts) > 1

    @property
    def model_settings(self) -> ModelSettings:
        """The settings, read strictly.

        Raises:
            ValueError: there are none, or they are damaged.
        """
        return read_settings(self.settings, f"config.json: {SETTINGS}")

    def take(self, settings: ModelSettings) -> None:
        """Say these settings from now on."""
        self.settings = plain_settings(settings)

    @property
    def vocab_size(self) -> int:
        """Of the part whose states are scored."""
        size: int = self.stream.vocab_size
        return size

    @property
    def image_size(self) -> int | None:
        """Side of the pictures that it reads; None: it reads tokens."""
        encoder = self.model_settings.encoder
        size: int | None = getattr(encoder and encoder.settings, "image_size", None)
        return size

    @property
    def hidden_size(self) -> int:
        width: int = self.stream.d_model
        return width

    @property
    def num_hidden_layers(self) -> int:
        count: int = self.stream.n_layers
        return count

    @property
    def max_position_embeddings(self) -> int:
        longest: int = self.stream.max_length
        return longest

    @property
    def stream(self) -> Any:
        """The settings of the part whose states are scored."""
        return [*self.model_settings.parts.values()][-1].settings
