"""Documents of rows: positions, and each of them in a row of its own."""

import torch

from zoo.blocks.documents import Borders, Documents, positions_of

DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2, 2, 0], [1, 1, 2, 3, 3, 3, 3]])


def test_positions_restart_at_each_document_and_are_0_where_there_is_none():
    assert positions_of(DOCUMENTS).tolist() == [[0, 0, 1, 2, 0, 1, 0], [0, 1, 0, 0, 1, 2, 3]]


def test_documents_without_numbers_are_whole_rows():
    found = Documents.of(None, torch.zeros(2, 3, 5))
    assert found.whole and found.numbers.tolist() == [[1, 1, 1], [1, 1, 1]] and found.unpacked() is None


def test_rows_of_documents_keep_what_is_known_of_them():
    assert Documents(DOCUMENTS, whole=True).take(slice(1)).whole
    assert torch.equal(Documents(DOCUMENTS).take(torch.tensor([1, 1])).numbers, DOCUMENTS[[1, 1]])


def test_borders_are_those_of_each_rows_documents_and_then_of_its_empty_places():
    borders = Borders.of([[2, 1], [], [4]], 4)
    queries, keys = [2, 3, 4, 4, 8, 8, 12, 12, 12], [2, 3, 3, 4, 4, 8, 12, 12, 12]
    assert borders.queries.tolist() == [0, *queries, *[12] * (3 * 16 - 9)]
    assert borders.keys.tolist() == [0, *keys, *[12] * (3 * 16 - 9)]
    assert borders.longest == 4


def test_there_is_room_for_as_many_borders_as_there_are():
    assert [len(Borders.of([[1] * n], n).keys) - 1 for n in (14, 15, 30, 31)] == [16, 32, 32, 64]


def test_no_kernel_is_told_that_documents_have_one_place():
    assert Borders.of([[1]], 1).longest == Borders.of_whole(torch.ones(2, 1, dtype=torch.long)).longest == 2


def test_a_place_that_is_widened_is_a_document_as_wide():
    pictures = Documents.packed([[1], []], torch.tensor([[1], [0]])).widen(3)
    expected = Borders.of([[3], []], 3)
    assert pictures.numbers.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert torch.equal(pictures.borders.queries, expected.queries) and pictures.borders.longest >= 3
    assert torch.equal(pictures.borders.keys, expected.keys)
