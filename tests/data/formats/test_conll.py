"""CoNLL columns: as they are read, and what is refused by its line."""

import re
from pathlib import Path
from typing import Any

import pytest
from test_readers import read, refusal, write

from zoo.data.formats import conll
from zoo.data.formats.format import ReadOptions
from zoo.data.sources.find import load_rows
from zoo.data.task import read_task
from zoo.examples.form import inputs

TWO = "EU\tB-org\nrejects\tO\n\nPeter\tB-per\n"


def test_a_sentence_is_a_row_of_words_and_tags(tmp_path: Path):
    found = read(write(tmp_path, "a.conll", "\n\n" + TWO + "\n"))
    assert found == [{"words": ["EU", "rejects"], "tags": ["B-org", "O"]}, {"words": ["Peter"], "tags": ["B-per"]}]


def test_a_tsv_is_read_so_where_the_task_says_it(tmp_path: Path):
    assert len(read(write(tmp_path, "a.tsv", TWO), format="conll")) == 2


def test_the_first_of_several_columns_has_the_words_and_the_last_one_the_tags(tmp_path: Path):
    lines = "-DOCSTART- -X- -X- O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n"
    assert read(write(tmp_path, "a.conll", lines)) == [{"words": ["EU", "rejects"], "tags": ["I-ORG", "O"]}]


def test_conll_u_is_read_by_the_names_of_its_columns(tmp_path: Path):
    lines = "# text = don't\n1-2\tdon't\t_\n1\tdo\tAUX\n2\tn't\tPART\n2.1\tnothing\tX\n3\t#\tSYM\n"
    found = read(write(tmp_path, "a.conllu", lines), header=("id", "words", "tags"))
    assert found == [{"words": ["do", "n't", "#"], "tags": ["AUX", "PART", "SYM"]}]
    found = read(write(tmp_path, "b.conllu", "1\t1-2\tNUM\n1\t1\tNUM\n"), header=("words", "id", "tags"))
    assert found == [{"words": ["1"], "tags": ["NUM"]}]


@pytest.mark.parametrize("first", ["1\tdo", "1-2\tdon't", "1\tdo\tdo\tdo\tVB\tVB"])  # CoNLL 2009 has 14 columns
def test_numbers_of_words_are_not_read_as_words(tmp_path: Path, first: str):
    rest = first.count("\t") * "\tx" + 8 * "\t_" + "\n"
    lines = f"# text = don't\n{first}" + 8 * "\t_" + f"\n2{rest}3.1{rest}"
    said = r"line 2: the first of 1. columns has the numbers of words; name the columns; for CoNLL-U: header: \[id, .*"
    assert re.search(
        said + r"misc\] and columns: \{words: form, tags: upos\}", refusal(write(tmp_path, "a.conllu", lines))
    )
    for words in (["10", "1"], ["1", "house"], ["1-2", "2", "x"], ["1"]):
        lines = "".join(word + 9 * "\tx" + "\n" for word in words)
        assert read(write(tmp_path, "b.conll", lines))[0]["words"] == words


def test_a_hash_begins_a_comment_where_no_tab_follows_in_a_file_with_tabs(tmp_path: Path):
    found = read(write(tmp_path, "a.conll", "#comment\n-DOCSTART-\n\nNew York\tB-loc\n#\tO\n#another\n"))
    assert found == [{"words": ["New York", "#"], "tags": ["B-loc", "O"]}]


def test_a_file_of_one_column_has_words_alone(tmp_path: Path):
    assert conll.Conll().columns(write(tmp_path, "a.conll", "EU\nrejects\n"), ReadOptions()) == ["words"]


def test_spaces_around_a_field_are_no_part_of_a_tag(tmp_path: Path):
    found = read(write(tmp_path, "a.conll", "\ufeffEU\tB-org \r\n rejects\t O\r\n"))
    assert found == [{"words": ["EU", "rejects"], "tags": ["B-org", "O"]}]


def test_a_hash_is_a_word_where_columns_are_apart_by_spaces(tmp_path: Path):
    assert read(write(tmp_path, "a.conll", "# O\n1 O\n")) == [{"words": ["#", "1"], "tags": ["O", "O"]}]
    assert read(write(tmp_path, "b.conll", "1 x = O\n# x = O\n")) == [{"words": ["1", "#"], "tags": ["O", "O"]}]


@pytest.mark.parametrize("said", ["# sent_id = 3", "# newdoc id = n01", "# text = EU #", "# id 5f3b\tdomain=en"])
def test_a_comment_before_a_sentence_is_none_of_its_words_where_columns_are_apart_by_spaces(tmp_path: Path, said: str):
    found = read(write(tmp_path, "a.conll", f"{said}\n# # _ O\nEU _ _ B-ORG\n\n{said}\nrejects _ _ O\n"))
    assert found == [{"words": ["#", "EU"], "tags": ["O", "B-ORG"]}, {"words": ["rejects"], "tags": ["O"]}]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("EU\tO\nrejects\n", "line 2: 1 column, expected 2; a sentence ends with a blank line"),
        ("EU\tO\n \tO\n", "line 2: an empty word"),
    ],
)
def test_what_is_no_table_of_words_is_refused_by_its_line(tmp_path: Path, lines: str, said: str):
    assert said in refusal(write(tmp_path, "a.conll", lines))


def rows(folder: Path, name: str, train: str, validation: str, **source: Any) -> Any:
    files = {"train": str(write(folder, f"t{name}", train)), "validation": str(write(folder, f"v{name}", validation))}
    task = read_task({"objective": "tagging", "source": {"files": files, **source}}, "task")
    return list(load_rows(task, inputs(), folder)["validation"])


def test_a_file_without_blank_lines_is_refused_by_the_line_that_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(conll, "LONGEST", 2)
    assert len(read(write(tmp_path, "a.conll", TWO))) == 2
    said = "a.conll: line 3: a sentence of more than 2 words; a sentence ends with a blank line"
    assert said in refusal(write(tmp_path, "a.conll", TWO.replace("\n\n", "\n")))


def test_an_unknown_tag_is_refused_by_its_line(tmp_path: Path):
    with pytest.raises(ValueError, match=r"v.tsv: line 5: unknown label 'B-peer' \(did you mean 'B-per'\?\)"):
        rows(tmp_path, ".tsv", TWO, "EU\tB-org\n\n\nA\tO\nB\tB-peer\n", format="conll")


def test_words_without_a_tag_each_are_refused_by_their_line(tmp_path: Path):
    row = '{"words": ["a", "b"], "tags": ["N", "V"]}\n'
    with pytest.raises(ValueError, match=r"v.jsonl: line 3: 1 word, but 2 tags; every word needs one"):
        rows(tmp_path, ".jsonl", row, row + '\n{"words": ["a"], "tags": ["N", "V"]}\n')
