"""Claims about the config of zoo's own classes: what transformers' tools read from it."""

from zoo.hub.modeling.config import ZooConfig
from zoo.hub.targets.zoo_target import plain_settings
from zoo.models.settings import load_settings


def test_sizes_are_those_of_the_part_whose_states_the_heads_score():
    sizes = {"d_model": 12, "vocab_size": 50, "embeddings.shared": False, "encoder.vocab_size": 40}
    sizes |= {"encoder.n_layers": 1, "decoder.n_layers": 2, "encoder.max_length": 30, "decoder.max_length": 20}
    sizes |= {"encoder.n_heads": 4, "decoder.n_heads": 3}
    settings = load_settings("transformer-nano", [(tuple(path.split(".")), value) for path, value in sizes.items()])
    config = ZooConfig(settings=plain_settings(settings))
    assert (config.vocab_size, config.hidden_size) == (50, 12)
    assert (config.num_hidden_layers, config.max_position_embeddings) == (2, 20)
    assert config.is_encoder_decoder and config.image_size is None
