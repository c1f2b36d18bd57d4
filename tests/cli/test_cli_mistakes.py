"""Every kind of bad input: one message that helps, exit status 2, and nothing written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers
from commands import Said

Zoo = Callable[..., Said]
SETS = {  # of `pretrain bert-nano classify.yaml` -> what the message says
    "encoder.atention=full": "unknown key 'atention' (did you mean 'attention'?)",
    "norm=layernrm": "unknown norm 'layernrm' (did you mean 'layernorm'?)",
    "norm={name: rmsnorm, epss: 1e-6}": "unknown option of norm 'rmsnorm': 'epss' (did you mean 'eps'?)",
    "n_kv_heads=2": "unknown key 'n_kv_heads' (did you mean 'attention.n_kv_heads'?)",
    "droput=0": "unknown key 'droput' (did you mean 'dropout'?)",
    "d_model=wide": "d_model: expected a whole number, got 'wide'",
    "encoder.n_heads=5": "5",
    "encoder.n_layers=0": "n_layers",
    "training.stesp=4": "unknown key 'stesp' (did you mean 'steps'?)",
    "training.steps=many": "training.steps: expected a whole number or null, got 'many'",
    "training.learning_rate=-1": "training.learning_rate: must be a finite number above 0, got -1",
    "training.optimizer=adamm": "unknown optimizer 'adamm' (did you mean 'adam",
    "training.freeze=[embedings]": "training.freeze: 'embedings' matches no parameter (did you mean 'embeddings'?)",
    "training=fast": "--set training: expected a map, got 'fast'",
    "training.trackers=[tensorbord]": "unknown tracker 'tensorbord' (did you mean 'tensorboard'?)",
    "generate.beam=4": "unknown key 'beam' (did you mean 'beams'?)",
    "generate.beams=0": "generate: beams must be at least 1, got 0",
    "task.lenght=4": "unknown key 'lenght' (did you mean 'length'?)",
    "task.objective=clasification": "unknown objective 'clasification' (did you mean 'classification'?)",
    "task.metrics=[acuracy]": "'acuracy' (did you mean 'accuracy'?)",
    "task.tokenizer.name=wordpeice": "unknown tokenizer 'wordpeice' (did you mean 'wordpiece'?)",
    "task.tokenizer=null": "task.tokenizer: missing",
    "task.columns.label=lable": "unknown column 'lable' (did you mean 'label'?)",
    "task.source.files.train=no.tsv": "no such file 'no.tsv'; looked for",
    "task.labels=[neg, positive]": "unknown label 'pos'; allowed: neg, positive",
    "heads.language.tied=false": "the model has no head 'language'; it has: classification",
    "vocab_size=9": "vocab_size: 9 is too small for the tokenizer's",
    "embeddings.vectors=none.vec": "embeddings.vectors: none.vec: no such file",
    "seed": "expected key=value, such as training.steps=1000",
}
COMMANDS = {  # a whole command -> what the message says
    "pretrian": "unknown command 'pretrian' (did you mean 'pretrain'?); allowed: list, show",
    "list taks": "unknown word 'taks' (did you mean 'tasks'?); allowed: models, tasks, blocks",
    "show bert-bse": "unknown model 'bert-bse' (did you mean 'bert-base'?)",
    "show no/such.yaml": "no/such.yaml: no such file",
    "show bert-nano DATA/classify.yaml task.tokenizer.name=wordpeice": "unknown tokenizer 'wordpeice' (did you mean",
    "show bert-nano DATA/classify.yaml task.tokenizer.vocab_size=3": "expected a whole number of at least 8, got 3",
    "show bert-nano DATA/classify.yaml training.freeze=[decoder:1]": "training.freeze: 'decoder:1': no part 'decoder'",
    "show bert-nano DATA/classify.yaml training.lora.targets=[querry]": "unknown linear layer 'querry' (did you mean",
    "pretrain bert-nano pydocs-topc -o RUN": "unknown task 'pydocs-topc' (did you mean 'pydocs-topic'?)",
    "pretrain bert-nano DATA/classify.yaml": "Missing option '-o'",
    "pretrain bert-nano DATA/broken.yaml -o RUN": "broken.yaml: line 3",
    "pretrain bert-nano DATA/empty.yaml -o RUN --data DATA": "it has no rows",
    "finetune DATA DATA/classify.yaml -o RUN": "is not a run",
    "finetune no/such DATA/classify.yaml -o RUN": "no/such: no such file or folder",
    "finetune hub:some/name DATA/classify.yaml -o RUN": "hub:some/name",
    "predict no/such text": "no/such: no such file or folder",
    "check bert-nano": "bert-nano: a model that zoo ships, so there is nothing to check; see it: zoo show bert-nano",
    "predict bert-nano text": "a model, not a checkpoint; train one first: zoo pretrain bert-nano TASK -o RUN",
}


def assert_refused(said: Said, message: str) -> None:
    """Status 2, and the message stands once on standard error, with no traceback."""
    assert said.status == 2, said.err
    assert said.err.count(message) == 1, said.err
    assert said.err.lower().count("error:") == 1 and "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("text", SETS)
def test_a_wrong_set_is_refused_before_anything_is_written(zoo: Zoo, data: Path, tmp_path: Path, text: str):
    folder = tmp_path / "run"
    said = zoo("pretrain", "bert-nano", data / "classify.yaml", "-o", folder, "--data", data, "--set", text)
    assert_refused(said, SETS[text])
    assert not folder.exists()


@pytest.mark.parametrize("words", COMMANDS)
def test_a_wrong_command_is_refused_before_anything_is_written(zoo: Zoo, data: Path, tmp_path: Path, words: str):
    folder = tmp_path / "run"
    said = zoo(*words.replace("RUN", str(folder)).replace("DATA", str(data)).split())
    assert_refused(said, COMMANDS[words])
    assert not folder.exists()


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("causal_lm", "causal_lm cannot train this model: "),
        (
            "translation",
            "translation cannot train this model: the target is written from left to right. It needs a decoder",
        ),
    ],
)
def test_an_objective_that_the_model_or_the_data_cannot_serve_is_refused(
    zoo: Zoo, data: Path, tmp_path: Path, objective: str, message: str
):
    words = ("pretrain", "bert-nano", data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    assert_refused(zoo(*words, "--set", "task.metrics=[]", "--set", f"task.objective={objective}"), message)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_another_run_is_refused(zoo: Zoo, data: Path, run_of: Callable[[str], Path]):
    folder = run_of("classify")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    said = zoo("pretrain", "bert-nano", data / "classify.yaml", "-o", folder, "--data", data)
    assert_refused(said, "already holds a run; continue it with --resume, or choose another folder")
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_resuming_with_another_model_is_refused(zoo: Zoo, data: Path, run_of: Callable[[str], Path]):
    task = data / "classify.yaml"
    words = ("pretrain", "bert-nano", task, "-o", run_of("classify"), "--data", data, "--resume", "--set", "d_ff=64")
    assert_refused(zoo(*words), "cannot be resumed with other settings: config.yaml: encoder.d_ff: 48 -> 64")


def test_a_folder_that_is_no_run_is_refused(zoo: Zoo, data: Path):
    said = zoo("pretrain", "bert-nano", data / "classify.yaml", "-o", data, "--data", data)
    assert_refused(said, "is not empty and not a run")


@pytest.mark.parametrize("key", ["d_model=64", "encoder.norm=rmsnorm", "vocab_size=99", "d_ff=99"])
def test_finetuning_keeps_the_architecture(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: Callable[[str], Path], key: str
):
    words = ("finetune", run_of("mlm"), data / "classify.yaml", "-o", tmp_path / "run", "--data", data, "--set", key)
    assert_refused(zoo(*words), "finetune keeps the checkpoint's architecture; it may change dropout, max_length")


def test_going_on_from_a_checkpoint_keeps_its_architecture_and_says_who_does(
    zoo: Zoo, data: Path, tmp_path: Path, run_of: Callable[[str], Path]
):
    words = ("pretrain", data / "mlm.yaml", "--from", run_of("mlm"), "-o", tmp_path / "run", "--data", data)
    said = zoo(*words, "d_model=64")
    assert_refused(said, "--set d_model: pretrain --from keeps the checkpoint's architecture; it may change dropout")
    assert "finetune" not in said.err


def test_finetuning_keeps_the_tokenizer(zoo: Zoo, data: Path, tmp_path: Path, run_of: Callable[[str], Path]):
    words = ("finetune", run_of("mlm"), data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    assert_refused(zoo(*words, "--set", "task.tokenizer.vocab_size=99"), "finetune keeps the checkpoint's tokenizer")


def test_a_question_without_an_answer_is_named_with_its_place(zoo: Zoo, tmp_path: Path, run_of: Callable[[str], Path]):
    asked = [{"id": name, "question": "who", "answers": [{"text": "cat", "answer_start": 4}]} for name in "abcd"]
    asked[2] = {"id": "c", "question": "who", "answers": [], "is_impossible": True}
    squad = {"data": [{"paragraphs": [{"context": "the cat runs", "qas": asked}]}]}
    (tmp_path / "asked.json").write_text(json.dumps(squad))
    source = "source: {files: {train: asked.json, validation: asked.json}, format: squad}"
    (tmp_path / "span.yaml").write_text(f"objective: span\n{source}\nlength: 24\n")
    words = ("finetune", run_of("mlm"), tmp_path / "span.yaml", "-o", tmp_path / "run", "--data", tmp_path)
    place = "asked.json: data[0].paragraphs[0].qas[2] (id c)"
    assert_refused(zoo(*words), f"{place}: the question has no answer (1 of 4 have none); if questions may have none")


def test_fine_tuning_a_folder_without_a_tokenizer_says_what_is_missing(zoo: Zoo, data: Path, tmp_path: Path):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(vocab_size=30, **sizes)).save_pretrained(tmp_path / "bert")
    words = ("finetune", tmp_path / "bert", data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    assert_refused(zoo(*words), "this checkpoint has no tokenizer, so it reads token ids only")
    said = zoo("check", tmp_path / "bert")  # which is whole: not everybody needs one
    assert said.status == 0 and "no tokenizer (it reads token ids only), and loads" in said.out


PREDICTIONS = {
    "mlm the cat": "nothing to fill in 'the': write [MASK] where a word is missing",
    "classify the --pair cat": "this checkpoint classifies single texts; leave it out",
    "pairs the": "this checkpoint classifies pairs; give the second text",
    "pairs the cat --pair dog": "1 second texts for 2 first ones; give one for each",
    "lm the --pair cat": "trained for causal_lm, which reads one text; leave it out",
    "lm the --set generate.beam=2": "unknown key 'beam' (did you mean 'beams'?)",
    "lm the --set dropout=0": "--set dropout: zoo predict does not read it; allowed: generate.…",
    "lm the --set generate.top_k=0": "generate: top_k must be at least 1, got 0",
}


@pytest.mark.parametrize("words", PREDICTIONS)
def test_a_prediction_that_cannot_be_is_refused(zoo: Zoo, run_of: Callable[[str], Path], words: str):
    name, *rest = words.split()
    assert_refused(zoo("predict", run_of(name), *rest), PREDICTIONS[words])


@pytest.mark.parametrize("name", ["classify", "lm", "numbers"])
def test_a_text_that_is_too_long_is_refused(zoo: Zoo, run_of: Callable[[str], Path], name: str):
    said = zoo("predict", run_of(name), "cat " * 70)
    messages = {"classify": "tokens too long", "lm": "a prompt must have 1 to 32", "numbers": "reads at most 32"}
    assert_refused(said, messages[name])


def test_evaluating_a_split_that_is_not_there_is_refused(zoo: Zoo, data: Path, run_of: Callable[[str], Path]):
    said = zoo("evaluate", run_of("classify"), "--split", "tset", "--data", data)
    assert_refused(said, "unknown split 'tset' (did you mean 'test'?); allowed: train, test, validation")


def test_evaluating_a_task_that_needs_another_head_is_refused(zoo: Zoo, data: Path, run_of: Callable[[str], Path]):
    said = zoo("evaluate", run_of("classify"), data / "lm.yaml", "--data", data)
    assert_refused(said, "needs the head 'language', which the checkpoint does not have; it has: classification")


def test_a_damaged_checkpoint_is_named(zoo: Zoo, tmp_path: Path, run_of: Callable[[str], Path]):
    shutil.copytree(run_of("lm"), tmp_path / "run")
    for weights in (tmp_path / "run").rglob("weights*.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-9])
    said = zoo("predict", tmp_path / "run", "the")
    assert said.status == 2 and "no undamaged checkpoint" in said.err and "Traceback" not in said.err


def test_a_config_that_was_edited_is_refused(zoo: Zoo, tmp_path: Path, run_of: Callable[[str], Path]):
    shutil.copytree(run_of("lm"), tmp_path / "run")
    with (tmp_path / "run" / "config.yaml").open("a") as config:
        config.write("# edited\n")
    assert_refused(zoo("predict", tmp_path / "run", "the"), "config.yaml: damaged or changed: its SHA-256")


@pytest.mark.parametrize("validation", ["catsleeps\n", "the cat sleeps on the red house\ncatsleeps\n"])
def test_words_that_are_all_too_long_to_be_hidden_whole_are_refused(zoo: Zoo, tmp_path: Path, validation: str):
    (tmp_path / "train.txt").write_text("the cat sleeps on the red house of the dog\n" * 9)
    (tmp_path / "validation.txt").write_text(validation)
    (tmp_path / "words.yaml").write_text(
        "objective: {masked_lm: {whole_word: true}}\nmetrics: [perplexity]\ntokenizer: characters\n"
        "source: {files: {train: train.txt, validation: validation.txt}}\ntraining: {steps: 1, evaluation_examples: 1}"
    )
    said = zoo("pretrain", "bert-nano", tmp_path / "words.yaml", "-o", tmp_path / "run", "--data", tmp_path)
    assert_refused(said, "validation: masked_lm finds nothing to predict: texts are too short, or words too lo")
    assert not (tmp_path / "run").exists()
