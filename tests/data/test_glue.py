"""The nine tasks of GLUE read rows as its archive has them: columns, labels, pairs."""

from pathlib import Path
from typing import Any

import pytest

from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.data.task_list import listed_tasks
from zoo.examples.form import inputs
from zoo.objectives.mixture import Mixture

MNLI = ["entailment", "neutral", "contradiction"]
# headers and a row for each class, as the files of gluebenchmark.com are written; CoLA's have no header
ROWS = {
    "cola": ["gj04\t0\t*\tHim sees.", "gj04\t1\t\tHe sees."],
    "sst2": ["sentence\tlabel", "a bore\t0", "a joy\t1"],
    "mrpc": ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t1\t2\tA .\tB .", "1\t3\t4\tC .\tD ."],
    "stsb": ["index\tgenre\tsentence1\tsentence2\tscore", "0\tx\tA.\tB.\t0.250", "1\tx\tC.\tD.\t5.000"],
    "qqp": ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "0\t1\t2\tWho?\tHow?\t0", "1\t3\t4\tWhy?\tHow?\t1"],
    "mnli": [
        "index\tpromptID\tpairID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label",
        *(f"{i}\t1\t1e\tfiction\tA.\tB.\t{label}\t{label}" for i, label in enumerate(MNLI)),
    ],
    "qnli": ["index\tquestion\tsentence\tlabel", "0\tWho?\tMe.\tentailment", "1\tWho?\tThere.\tnot_entailment"],
    "rte": ["index\tsentence1\tsentence2\tlabel", "0\tA.\tB.\tentailment", "1\tC.\tD.\tnot_entailment"],
    "wnli": ["index\tsentence1\tsentence2\tlabel", "0\tA.\tB.\t0", "1\tC.\tD.\t1"],
}  # fmt: skip
SPLITS = {"validation": "dev", "test": "test"}
OFFICIAL = {  # Wang et al. 2019, table 1
    "cola": ["matthews"], "sst2": ["accuracy"], "mrpc": ["accuracy", "f1"], "stsb": ["pearson", "spearman"],
    "qqp": ["accuracy", "f1"], "mnli": ["accuracy"], "qnli": ["accuracy"], "rte": ["accuracy"], "wnli": ["accuracy"],
}  # fmt: skip


def test_glue_lists_its_nine_tasks() -> None:
    assert listed_tasks("glue") == list(OFFICIAL)


@pytest.mark.parametrize("name", OFFICIAL)
def test_a_task_has_its_official_metrics_and_offers_them(name: str) -> None:
    task = load_task(name)
    assert task.metrics == OFFICIAL[name]
    assert set(task.metrics) <= set(Mixture.of(task).metrics["classification"])


@pytest.mark.parametrize("half", ["matched", "mismatched"])
def test_a_half_of_mnli_reads_what_a_model_of_mnli_answers(half: str) -> None:
    mnli, other = load_task("mnli"), load_task(f"mnli-{half}")
    assert (other.columns, other.labels, other.metrics) == (mnli.columns, mnli.labels, mnli.metrics)
    assert other.source.files == {name: f"glue_mnli/{file}_{half}.tsv" for name, file in SPLITS.items()}


def test_mnli_is_validated_on_both_halves(tmp_path: Path) -> None:
    header, *rows = ROWS["mnli"]
    (tmp_path / "glue_mnli").mkdir()
    halves = {"dev_matched": rows[:2], "dev_mismatched": rows[1:]}
    for name, some in {"train": rows, "test_matched": rows, **halves}.items():
        (tmp_path / "glue_mnli" / f"{name}.tsv").write_text("\n".join([header, *some]) + "\n")
    found = load_rows(load_task("mnli"), inputs(), tmp_path, ["validation"])["validation"]
    assert [row["label"] for row in found] == [0, 1, 1, 2] and load_task("mnli").by_file


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_rows_of_a_task_are_read(tmp_path: Path, name: str) -> None:
    task = load_task(name)
    for files in task.source.files.values() if task.source.files else ():
        for file in files if isinstance(files, list) else [files]:
            (tmp_path / str(file)).parent.mkdir(exist_ok=True)
            (tmp_path / str(file)).write_text("\n".join(ROWS[name]) + "\n")
    rows: list[dict[str, Any]] = list(load_rows(task, inputs(), tmp_path)["train"])
    pairs = {"text", "label"} if name in ("cola", "sst2") else {"text", "pair", "label"}
    assert all(set(row) == pairs for row in rows)
    labels = [row["label"] for row in rows]
    assert labels == ([0.25, 5.0] if name == "stsb" else list(range(len(labels))))
