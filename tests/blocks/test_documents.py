"""Documents of rows: positions, and each of them in a row of its own."""

import torch

from zoo.blocks.documents import Documents, positions_of

DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2, 2, 0], [1, 1, 2, 3, 3, 3, 3]])


def test_positions_restart_at_each_document_and_are_0_where_there_is_none():
    assert positions_of(DOCUMENTS).tolist() == [[0, 0, 1, 2, 0, 1, 0], [0, 1, 0, 0, 1, 2, 3]]


def test_documents_without_numbers_are_whole_rows():
    found = Documents.of(None, torch.zeros(2, 3, 5))
    assert found.whole and found.numbers.tolist() == [[1, 1, 1], [1, 1, 1]] and found.unpacked() is None


def test_rows_of_documents_keep_what_is_known_of_them():
    assert Documents(DOCUMENTS, whole=True).take(slice(1)).whole
    assert torch.equal(Documents(DOCUMENTS).take(torch.tensor([1, 1])).numbers, DOCUMENTS[[1, 1]])
