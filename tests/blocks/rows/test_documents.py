"""Documents of rows: positions, and each of them in a row of its own."""

import pytest
import torch

from zoo.blocks.rows.documents import Borders, Documents, positions_of

DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2, 2, 0], [1, 1, 2, 3, 3, 3, 3]])


def test_positions_restart_at_each_document_and_are_0_where_there_is_none():
    assert positions_of(DOCUMENTS).tolist() == [[0, 0, 1, 2, 0, 1, 0], [0, 1, 0, 0, 1, 2, 3]]


def test_a_gap_in_a_document_keeps_its_positions():
    gaps = torch.tensor([[0, 1, 1, 0, 0, 1, 2, 0], [1, 0, 1, 2, 0, 0, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1]])
    assert positions_of(gaps).tolist() == [[0, 0, 1, 0, 0, 4, 0, 0], [0, 0, 2, 0, 0, 0, 3, 4], [0] * 8]


def test_documents_without_numbers_are_whole_rows():
    found = Documents.of(None, torch.zeros(2, 3, 5))
    assert found.whole and found.numbers.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_rows_of_documents_keep_what_is_known_of_them():
    assert Documents(DOCUMENTS, whole=True).select_rows(slice(1)).whole
    assert torch.equal(Documents(DOCUMENTS).select_rows(torch.tensor([1, 1])).numbers, DOCUMENTS[[1, 1]])


def test_borders_are_those_of_each_rows_documents_and_then_of_its_empty_positions():
    borders = Borders.of([[2, 1], [], [4]], 4)
    queries, keys = [2, 3, 4, 4, 8, 8, 12, 12, 12], [2, 3, 3, 4, 4, 8, 12, 12, 12]
    assert borders.queries.tolist() == [0, *queries, *[12] * (3 * 8 - 9)]
    assert borders.keys.tolist() == [0, *keys, *[12] * (3 * 8 - 9)]
    assert borders.longest == 4


def test_there_is_room_for_as_many_borders_as_there_are():
    assert [len(Borders.of([[1] * n], n).keys) - 1 for n in (6, 7, 14, 15, 30, 31)] == [8, 16, 16, 32, 32, 64]


def test_a_kernel_is_started_for_no_more_documents_than_cuda_has_blocks():
    rows = [[1, 1]] * 10_000
    borders = Borders.of(rows, 3)
    assert len(borders.keys) - 1 == 65_535 and borders.keys[-1] == 30_000
    assert len(Borders.of(rows * 2, 3).keys) - 1 == 80_000  # nothing is left out: the kernel refuses them


def test_positions_reach_as_far_as_the_longest_document_where_lengths_are_known():
    numbers = torch.tensor([[1, 1, 0, 0, 0, 0, 0], [1, 1, 2, 3, 3, 3, 0]])
    assert Documents(numbers).position_bound == 7 and Documents.packed([[2], [2, 1, 3]], numbers).position_bound == 3
    assert Documents.packed([[], []], 0 * numbers).to("cpu").position_bound == 0


def test_no_kernel_is_told_that_documents_have_one_position():
    assert Borders.of([[1]], 1).longest == Borders.of_whole(torch.ones(2, 1, dtype=torch.long)).longest == 2


def test_a_position_that_is_widened_is_a_document_as_wide():
    pictures = Documents.packed([[1], []], torch.tensor([[1], [0]])).repeat_positions(3)
    expected = Borders.of([[3], []], 3)
    assert pictures.numbers.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert torch.equal(pictures.borders.queries, expected.queries) and pictures.borders.longest >= 3
    assert torch.equal(pictures.borders.keys, expected.keys)


def test_documents_are_sequences_from_the_longest_on_whoever_knows_their_lengths():
    numbers = torch.tensor([[1, 1, 2, 3, 3, 3, 0], [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0]])
    for documents in (Documents.packed([[2, 1, 3], [], [4]], numbers), Documents(numbers)):
        sequences, x = documents.sequences(), torch.arange(21).view(3, 7)
        spans = [(2, 1, 14, 4), (0, 3, 3, 3), (0, 1, 0, 2), (0, 2, 2, 1)]  # row, number, first position, length
        assert [tuple(span) for span in sequences.spans] == spans and sequences.starts.tolist() == [14, 3, 0, 2]
        assert sequences.sizes == [4, 3, 2, 1]
        assert sequences.to_steps(x).tolist() == [14, 3, 0, 2, 15, 4, 1, 16, 5, 17]
        assert torch.equal(sequences.to_rows(sequences.to_steps(x)), x * (numbers > 0))
        assert sequences.padded(x).tolist() == [[14, 15, 16, 17], [3, 4, 5, 0], [0, 1, 0, 0], [2, 0, 0, 0]]


@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_what_a_packer_knows_is_not_looked_up(where: str):
    numbers = torch.empty(2, 3, dtype=torch.long, device=where)  # on the meta device nothing can be looked up
    known = Documents.packed([[2, 1], [3]], torch.empty(2, 3, dtype=torch.long)).to(where)
    assert [span.length for span in known.sequences().spans] == [3, 2, 1]
    assert [span.length for span in known.repeat_positions(4).sequences().spans] == [12, 8, 4]
    assert [span.length for span in Documents.of(None, numbers).sequences().spans] == [3, 3]


def test_where_there_is_no_document_one_of_no_position_stands_for_it():
    sequences, x = Documents(torch.zeros(2, 3, dtype=torch.long)).sequences(), torch.ones(2, 3, 4)
    assert sequences.sizes == [1] and sequences.to_steps(x).shape == (1, 4)
    assert not sequences.to_rows(sequences.to_steps(x)).any() and not sequences.padded(x).any()
