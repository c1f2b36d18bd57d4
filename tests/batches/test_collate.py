from typing import Any

import numpy as np
import pytest
import torch

from zoo.batches.collate import MicroBatch, collate, stack_images
from zoo.batches.feed import Feed
from zoo.batches.order import Examples, PackedRow
from zoo.batches.packing import RowShape
from zoo.data.ids import Lengths, Roles
from zoo.examples.example import Example
from zoo.examples.form import ModelTraits
from zoo.objectives.mixture import Mixture

ROLES = Roles(vocab_size=99, pad=98, unk=1, start=2, end=3, separator=4, extract=5, mask=6)
ENCODER, DECODER = ModelTraits(causal=False, segments=True), ModelTraits(causal=True)


def examples(objective: Any, stream: ModelTraits, shape: RowShape, **fields: list[int]) -> Examples:
    """Documents of the given lengths; every token is 10 + its position in its field."""
    sentences = np.arange(len(fields["text"]) + 1) if "next_sentence" in objective else None
    labels = np.arange(len(next(iter(fields.values())))) % 3
    lengths = Lengths({name: np.cumsum([0, *sizes]) for name, sizes in fields.items()}, sentences, labels)
    mixture = Mixture.parse(objective)
    form = mixture.form(list(fields), stream)
    return Examples(form, mixture, lengths, lambda p: np.arange(p.start, p.stop, dtype=np.int64) + 10, ROLES, shape)


def first_part(given: Examples, micro_batch: int, rows: int | None = None) -> tuple[list[PackedRow], MicroBatch]:
    taken = list(given.rows_in_order())[: rows or micro_batch]
    return taken, collate(taken, given, micro_batch)


def test_texts_for_a_decoder_share_a_row_as_documents_and_are_scored_densely():
    given = examples("causal_lm", DECODER, RowShape(8), text=[2, 3])
    _, part = first_part(given, 1)
    assert part.inputs["tokens"].tolist() == [[2, 10, 11, 2, 12, 13, 14, 98]]
    assert part.inputs["documents"].numbers.tolist() == [[1, 1, 1, 2, 2, 2, 2, 0]]
    assert part.targets["causal_lm"].tolist() == [[10, 11, 3, 12, 13, 14, 3, -1]]
    assert "places" not in part.inputs and "segments" not in part.inputs
    assert part.examples == [(0, 0, 0), (0, 1, 0)]
    assert (part.tokens, part.occupancy) == (7, 7 / 8)


def test_a_source_and_its_target_have_the_same_document_number():
    given = examples("translation", ModelTraits(True, source=True), RowShape(8, 7), source=[1, 2], target=[2, 2])
    _, part = first_part(given, 1)
    assert part.inputs["tokens"].tolist() == [[2, 10, 11, 2, 12, 13, 98, 98]]
    assert part.inputs["source"].tolist() == [[10, 3, 11, 12, 3, 98, 98]]
    assert part.inputs["source_documents"].numbers.tolist() == [[1, 1, 2, 2, 2, 0, 0]]
    assert part.targets["translation"].tolist() == [[10, 11, 3, 12, 13, 3, -1, -1]]


def test_the_tokens_of_sources_are_counted_too():
    given = examples("translation", ModelTraits(True, source=True), RowShape(8, 7), source=[1, 2], target=[2, 2])
    _, part = first_part(given, 1)
    assert (part.tokens, part.occupancy) == (6 + 5, (6 + 5) / (8 + 7))


def test_a_part_may_have_as_many_positions_as_its_rows_need():
    given = examples("translation", ModelTraits(True, source=True), RowShape(8, 7), source=[1, 2], target=[2, 2])
    taken = list(given.rows_in_order())
    whole, part = collate(taken, given, 1), collate(taken, given, 1, (6, 5))
    for name, length in (("tokens", 6), ("source", 5)):
        assert part.inputs[name].tolist() == whole.inputs[name][:, :length].tolist()
    assert part.targets["translation"].tolist() == whole.targets["translation"][:, :6].tolist()
    assert (part.tokens, part.occupancy) == (whole.tokens, 1.0)


def test_a_part_of_few_positions_has_as_many_scored_ones_as_a_row_may_have():
    given = examples("masked_lm", ENCODER, RowShape(32), text=[1] * 6)  # one hidden of three positions each
    (row,) = given.rows_in_order()
    assert (collate([row], given, 1, (18, 0)).targets["masked_lm"] >= 0).sum() == 6


def test_each_row_has_its_own_picture_and_an_empty_one_is_black():
    pictures = [np.full((3, 2, 2), color, dtype=np.uint8) for color in (5, 9)]
    nothing = np.zeros(0, dtype=np.int64)
    built = [[Example(nothing, nothing > 0, nothing, picture=picture)] for picture in pictures]
    laid = stack_images(built, 3, ModelTraits(causal=False, image_size=2))
    assert laid.dtype == np.uint8 and [picture.max() for picture in laid] == [5, 9, 0] and laid[1].min() == 9


@pytest.mark.parametrize(("stream", "at"), [(ModelTraits(causal=False), [0, 4]), (DECODER, [3, 8])])
def test_documents_are_scored_at_the_first_position_of_an_encoder_or_the_last_of_a_decoder(
    stream: ModelTraits, at: list[int]
):
    given = examples("classification", stream, RowShape(16), text=[2, 3])
    _, part = first_part(given, 2, rows=1)
    assert part.inputs["places"]["classification"].tolist() == [*at, -1, -1]
    assert part.targets["classification"].tolist() == [0, 1, -1, -1]


def test_masked_positions_point_at_the_masked_tokens_of_their_row():
    given = examples("masked_lm", ENCODER, RowShape(32, longest=16), text=[9, 12, 14, 11, 10, 13])
    _, part = first_part(given, 4, rows=3)
    places, targets = part.inputs["places"]["masked_lm"], part.targets["masked_lm"]
    assert places.shape == targets.shape == (4 * 6,)
    flat, scored = part.inputs["tokens"].flatten(), places >= 0
    assert ((places >= 0) == (targets >= 0)).all() and scored.sum() == 1 + 2 + 2 + 2 + 2 + 2
    shown = flat[places[scored]]
    assert ((shown == 6) | (shown == targets[scored]) | (shown >= 7)).all()
    whole = flat.clone()
    whole[places[scored]] = targets[scored]
    text = whole[(whole >= 10) & (whole < 98)]
    assert sorted(text.tolist()) == list(range(10, 10 + 69)), "putting the targets back gives the text back"


def test_next_sentence_and_masked_lm_are_scored_side_by_side():
    given = examples({"masked_lm": {}, "next_sentence": {}}, ENCODER, RowShape(32, longest=16), text=[9, 12, 14, 11])
    rows, part = first_part(given, 2)
    labels = [plan.label for row in rows for plan in row.plans]
    scored = part.targets["next_sentence"]
    assert scored[scored >= 0].tolist() == labels
    places = part.inputs["places"]["next_sentence"]
    assert (part.inputs["tokens"].flatten()[places[places >= 0]] == ROLES.start).all()
    assert set(part.inputs["segments"].unique().tolist()) == {0, 1}


def test_shapes_never_change_and_missing_rows_are_empty():
    given = examples(
        {"masked_lm": {}, "next_sentence": {}}, ENCODER, RowShape(32, longest=16), text=[9, 12, 14, 11] * 9
    )
    feed = Feed(given)
    parts = [feed.collate(feed.take(rows), 4) for rows in (4, 2)] + [collate([], given, 4)]
    for part in parts:
        assert {k: v.shape for k, v in part.targets.items()} == {k: v.shape for k, v in parts[0].targets.items()}
        laid = {**part.inputs, "documents": part.inputs["documents"].numbers}
        for name in ("tokens", "documents", "segments"):
            assert laid[name].shape == (4, 32) and laid[name].dtype == torch.int64
        borders = part.inputs["documents"].borders
        assert borders.queries.shape == borders.keys.shape == (4 * 8 + 1,) and borders.longest == 32
        assert borders.queries.dtype == borders.keys.dtype == torch.int32
    empty = parts[-1]
    assert not empty.inputs["documents"].numbers.any() and (empty.inputs["tokens"] == ROLES.pad).all()
    assert all((places == -1).all() for places in empty.inputs["places"].values())
    assert all(count == 0 for count in given.mixture.counts(empty.targets).values())
    assert (empty.tokens, empty.occupancy, empty.examples) == (0, 0.0, [])


def test_every_position_that_a_generator_may_sample_has_the_number_of_its_example():
    given = examples("replaced_token", ENCODER, RowShape(16, longest=8), text=[3, 5])
    (row,), part = first_part(given, 2, rows=1)
    draws = [draw for example in given.build(row) for draw in example.draws.tolist()]
    assert len(set(draws)) == len(draws) == 3 + 5 + 4 and part.inputs["draws"].dtype == torch.int64
    assert part.inputs["draws"].tolist() == [draws + 4 * [0], 16 * [0]]
    assert "draws" not in first_part(examples("causal_lm", DECODER, RowShape(8), text=[2]), 1)[1].inputs


@pytest.mark.parametrize(
    ("objective", "stream"), [("classification", ENCODER), ("causal_lm", ModelTraits(causal=True, segments=True))]
)
def test_a_text_alone_is_the_first_segment(objective: str, stream: ModelTraits):
    given = examples(objective, stream, RowShape(16), text=[2, 3])
    segments = first_part(given, 1)[1].inputs["segments"]
    assert isinstance(segments, torch.Tensor) and segments.shape == (1, 16) and not segments.any()


def test_segments_are_left_out_where_the_model_has_none():
    given = examples("classification", ModelTraits(causal=False), RowShape(16), text=[2], pair=[3])
    assert "segments" not in first_part(given, 1)[1].inputs


def test_an_unlabeled_document_has_a_position_but_no_target():
    given = examples("classification", ModelTraits(causal=False), RowShape(16), text=[2, 3])
    given = Examples(given.form, given.mixture, given.lengths._replace(labels=None), given.read, ROLES, given.shape)
    _, part = first_part(given, 1)
    assert part.inputs["places"]["classification"].tolist() == [0, 4]
    assert part.targets["classification"].tolist() == [-1, -1]


def test_a_part_moves_to_a_device_with_everything_in_it():
    _, part = first_part(examples("masked_lm", ENCODER, RowShape(16), text=[9]), 1)
    moved = part.to(torch.device("meta"))
    assert moved.inputs["tokens"].device.type == moved.inputs["places"]["masked_lm"].device.type == "meta"
    assert moved.targets["masked_lm"].device.type == "meta" and moved.examples == part.examples
    documents, known = moved.inputs["documents"], part.inputs["documents"]
    assert {t.device.type for t in (documents.numbers, documents.borders.queries, documents.borders.keys)} == {"meta"}
    assert (documents.whole, documents.borders.longest) == (known.whole, known.borders.longest)


@pytest.mark.parametrize(("lengths", "rows", "whole"), [([6, 6], 2, True), ([6, 6], 3, False), ([6, 5], 2, False)])
def test_rows_are_whole_where_each_is_one_full_document(lengths: list[int], rows: int, whole: bool):
    given = examples("causal_lm", DECODER, RowShape(7), text=lengths)
    assert collate(list(given.rows_in_order()), given, rows).inputs["documents"].whole is whole
