"""Hugging Face BERT folders: the same numbers out, every head, and one sentence for what is missing or foreign."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.small_bert_folder import CONFIG, PIECES, their_weights, write_folder
from torch.nn import functional

import regard
from regard.cli.import_folder import import_folder
from regard.errors import RegardError
from regard.interop import huggingface_bert

FORMULAS = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "relu": functional.relu,
    "silu": lambda x: x * torch.sigmoid(x),
}


def written_out(
    weights: dict[str, torch.Tensor], ids: torch.Tensor, segments: torch.Tensor, activation: str = "gelu"
) -> torch.Tensor:
    """BERT by its formulas, from their weights, the biases of keys included."""

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x, (16,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.token_type_embeddings.weight"][segments]
    x = norm(x + weights["embeddings.position_embeddings.weight"][: ids.size(1)], "embeddings.LayerNorm")
    for layer in range(2):
        at = f"encoder.layer.{layer}"
        heads = [
            linear(x, f"{at}.attention.self.{part}").unflatten(-1, (2, 8)).transpose(1, 2)
            for part in ("query", "key", "value")
        ]
        maps = (heads[0] @ heads[1].transpose(-1, -2) / 8**0.5).softmax(-1) @ heads[2]
        maps = linear(maps.transpose(1, 2).flatten(-2), f"{at}.attention.output.dense")
        x = norm(x + maps, f"{at}.attention.output.LayerNorm")
        inner = FORMULAS[activation](linear(x, f"{at}.intermediate.dense"))
        x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    return x


def test_the_numbers_are_those_of_the_formulas(folder: Path) -> None:
    found = huggingface_bert.read(folder)
    ids = torch.tensor([[2, 7, 9, 3, 11, 12, 3]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        ours = found.model.eval().bert(ids, segments)
    assert torch.allclose(ours, written_out(their_weights(), ids, segments), atol=1e-5)
    assert (found.head, found.labels, found.new_weights) == ("none", (), ())


def test_older_names_and_a_missing_pooler(tmp_path: Path, folder: Path) -> None:
    weights = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): each
        for name, each in their_weights("bert.").items()
        if "pooler" not in name
    }
    found = huggingface_bert.read(write_folder(tmp_path / "older", weights))
    assert found.new_weights == ("bert.pooler.weight", "bert.pooler.bias")
    same = huggingface_bert.read(folder).model
    ids = torch.tensor([[2, 7, 9, 3]])
    assert torch.equal(found.model.eval().bert(ids, ids * 0), same.eval().bert(ids, ids * 0))


HEADS = {
    "classes": ("BertForSequenceClassification", {"classifier.weight": (3, 16), "classifier.bias": (3,)}),
    "tags": ("BertForTokenClassification", {"classifier.weight": (3, 16), "classifier.bias": (3,)}),
    "span": ("BertForQuestionAnswering", {"qa_outputs.weight": (2, 16), "qa_outputs.bias": (2,)}),
    "pretraining": (
        "BertForPreTraining",
        {
            "cls.predictions.transform.dense.weight": (16, 16), "cls.predictions.transform.dense.bias": (16,),
            "cls.predictions.transform.LayerNorm.weight": (16,), "cls.predictions.transform.LayerNorm.bias": (16,),
            "cls.predictions.bias": (len(PIECES),),
            "cls.seq_relationship.weight": (2, 16), "cls.seq_relationship.bias": (2,),
        },
    ),
}  # fmt: skip


MASKED = HEADS["pretraining"][1]
TABLE = "bert.embeddings.word_embeddings.weight"


def masked_weights() -> dict[str, torch.Tensor]:
    """Those of BertForPreTraining; the output has the table of the embeddings."""
    sampling = torch.Generator().manual_seed(5)
    drawn = {name: torch.randn(shape, generator=sampling) * 0.5 for name, shape in MASKED.items()}
    return {**their_weights("bert."), **drawn}


def write_masked(folder: Path, weights: dict[str, torch.Tensor], **changes: object) -> Path:
    return write_folder(folder, weights, architectures=["BertForPreTraining"], **changes)


@pytest.mark.parametrize("activation", list(FORMULAS))
def test_guesses_of_words_use_the_activation_of_the_model(tmp_path: Path, activation: str) -> None:
    weights = masked_weights()
    import_folder(
        write_masked(tmp_path / "theirs", weights, hidden_act=activation), tmp_path / "run", as_json=True
    )
    ids, segments = torch.tensor([[2, 7, 4, 3, 11, 12, 3]]), torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    body = {name.removeprefix("bert."): each for name, each in weights.items()}
    at = "cls.predictions.transform"
    rows = functional.linear(
        written_out(body, ids, segments, activation), weights[f"{at}.dense.weight"], weights[f"{at}.dense.bias"]
    )
    norm = weights[f"{at}.LayerNorm.weight"], weights[f"{at}.LayerNorm.bias"], 1e-12
    rows = functional.layer_norm(FORMULAS[activation](rows), (16,), *norm)
    expected = functional.linear(rows, weights[TABLE], weights["cls.predictions.bias"])
    model = regard.load(tmp_path / "run").model
    with torch.no_grad():
        ours = functional.linear(model.masked(model.bert(ids, segments)), *model.output)
    assert float((ours - expected).abs().max()) <= 1e-5


@pytest.mark.parametrize("activation", list(FORMULAS))
def test_guesses_of_words_are_those_of_transformers(tmp_path: Path, activation: str) -> None:
    """Also of a folder that was exported again."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    folder = write_masked(tmp_path / "theirs", masked_weights(), hidden_act=activation)
    ids = torch.tensor([[2, 7, 4, 3, 11, 12, 3]])
    found = huggingface_bert.read(folder)
    huggingface_bert.write(tmp_path / "out", found.model, found.config, found.head, (), found.tokenizer)
    model = found.model.eval()
    with torch.no_grad():
        ours = functional.linear(model.masked(model.bert(ids, ids * 0)), *model.output)
        for place in (folder, tmp_path / "out"):
            theirs = transformers.BertForPreTraining.from_pretrained(place).eval()
            assert float((ours - theirs(input_ids=ids).prediction_logits).abs().max()) <= 1e-5


def test_an_output_table_that_repeats_the_embeddings_is_accepted(tmp_path: Path) -> None:
    weights = masked_weights()
    weights["cls.predictions.decoder.weight"] = weights[TABLE].clone()
    weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"].clone()
    for tied in (True, False):
        folder = write_masked(tmp_path / f"tied {tied}", weights, tie_word_embeddings=tied)
        assert huggingface_bert.read(folder).head == "pretraining"


UNTIED = {
    "another table": ({"cls.predictions.decoder.weight": torch.zeros(len(PIECES), 16)}, {}, "decoder.weight"),
    "a wider table": ({"cls.predictions.decoder.weight": torch.zeros(len(PIECES) + 1, 16)}, {}, "decoder.weight"),
    "another bias": ({"cls.predictions.decoder.bias": torch.ones(len(PIECES))}, {}, "decoder.bias"),
    "none, and not tied": ({}, {"tie_word_embeddings": False}, "tie_word_embeddings is false"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(UNTIED))
def test_an_output_table_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    others, changes, told = UNTIED[name]
    folder = write_masked(tmp_path / "theirs", {**masked_weights(), **others}, **changes)
    with pytest.raises(
        RegardError, match="the output of a masked language model must be tied to its token emb"
    ) as caught:
        huggingface_bert.read(folder)
    assert told in str(caught.value)


@pytest.mark.parametrize("head", list(HEADS))
def test_heads_come_along(tmp_path: Path, head: str, capsys: pytest.CaptureFixture[str]) -> None:
    architecture, shapes = HEADS[head]
    drawn = {name: torch.randn(shape) for name, shape in shapes.items()}
    labels = {"id2label": {"0": "O", "1": "B-x", "2": "I-x"}} if head in ("classes", "tags") else {}
    theirs = write_folder(
        tmp_path / "theirs", {**their_weights("bert."), **drawn}, architectures=[architecture], **labels
    )
    import_folder(theirs, tmp_path / "run", as_json=True)
    assert json.loads(capsys.readouterr().out)["labels"] == list(labels.get("id2label", {}).values())
    found = huggingface_bert.read(theirs)
    assert found.head == head
    head_weights = {"classes": "labels", "tags": "tags", "span": "edges", "pretraining": "next_sentence"}
    theirs_name = "cls.seq_relationship" if head == "pretraining" else next(iter(shapes)).split(".")[0]
    assert torch.equal(getattr(found.model, head_weights[head]).weight, drawn[f"{theirs_name}.weight"])
    model = regard.load(tmp_path / "run")
    if head == "classes":
        (judged,) = model.classify(["a b c"])
        assert sum(judged.probabilities.values()) == pytest.approx(1)
        assert model.classify([("a", "b")])[0] != judged
    elif head == "tags":
        assert len(model.tag([["a", "b"]])[0].tags) == 2
    elif head == "span":
        with pytest.raises(RegardError, match="the model has 20 positions"):
            model.answer([("a", "b c")])
    assert model.embed(["a b", "c"]).shape == (2, 16)


NO_SOFTMAX = {
    "a cross-encoder": (1, {}, "num_labels is 1, a regression head .*; allowed are 2 labels or more"),
    "a cross-encoder, unnamed": (1, {"id2label": None}, "num_labels is 1, a regression head"),
    "regression": (
        1,
        {"problem_type": "regression"},
        "problem_type is 'regression'; allowed is 'single_label_",
    ),
    "regression of many": (
        3,
        {"problem_type": "regression"},
        "problem_type is 'regression'; allowed is 'single_",
    ),
    "many labels at once": (
        3,
        {"problem_type": "multi_label_classification"},
        "problem_type is 'multi_label_classification'; allowed is 'single_label_classification'",
    ),
}


def write_classifier(folder: Path, labels: int, **changes: object) -> Path:
    """A BERT that classifies; a change to None takes the key out."""
    head = {"classifier.weight": torch.randn(labels, 16), "classifier.bias": torch.randn(labels)}
    named = {"id2label": {str(number): f"LABEL_{number}" for number in range(labels)}, **changes}
    told = {key: value for key, value in named.items() if value is not None}
    weights = {**their_weights("bert."), **head}
    return write_folder(folder, weights, architectures=["BertForSequenceClassification"], **told)


@pytest.mark.parametrize("name", list(NO_SOFTMAX))
def test_a_classifier_without_softmax_is_refused(tmp_path: Path, name: str) -> None:
    labels, changes, sentence = NO_SOFTMAX[name]
    with pytest.raises(RegardError, match=sentence):
        import_folder(write_classifier(tmp_path / "theirs", labels, **changes), tmp_path / "run", as_json=True)
    assert not (tmp_path / "run").exists()


def test_one_label_of_several_is_imported(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "theirs", 3, problem_type="single_label_classification")
    import_folder(folder, tmp_path / "run", as_json=True)
    (judged,) = regard.load(tmp_path / "run").classify(["a b c"])
    found = huggingface_bert.read(folder)
    ids = torch.tensor([found.tokenizer.with_special_tokens(found.tokenizer.encode("a b c"))])
    with torch.no_grad():
        shares = found.model.eval()(ids, ids * 0)[0].softmax(-1)
    wanted = {f"LABEL_{number}": float(share) for number, share in enumerate(shares)}
    assert judged.probabilities == pytest.approx(wanted, abs=1e-5)


WRONG = {
    "no config": (lambda at: (at / "config.json").unlink(), "has no config.json"),
    "broken config": (lambda at: (at / "config.json").write_text("{"), "config.json is not JSON"),
    "another family": (lambda at: config(at, model_type="roberta"), "model_type is 'roberta', not 'bert'"),
    "other positions": (lambda at: config(at, position_embedding_type="relative_key"), "allowed is 'absolute'"),
    "a decoder": (lambda at: config(at, is_decoder=True), "this BERT is a decoder"),
    "another activation": (lambda at: config(at, hidden_act="tanh"), 'activation: "tanh" is not a choice'),
    "endless layers": (lambda at: config(at, num_hidden_layers=10**9), "layers: 1000000000 is out of range"),
    "more layers": (lambda at: config(at, num_hidden_layers=3), "encoder.layer.2.attention.self.query.weight' is missing"),
    "wider": (lambda at: config(at, hidden_size=65536), "is 38 x 16, not 38 x 65536"),
    "no vocabulary": (lambda at: (at / "vocab.txt").unlink(), "neither tokenizer.json nor vocab.txt"),
    "a cut vocabulary": (lambda at: (at / "vocab.txt").write_text("[PAD]\n"), r"the token \[UNK\] is missing"),
    "more words": (lambda at: (at / "vocab.txt").write_text("\n".join([*PIECES, "x1"])), "39 pieces, and vocab_size in config.json is 38"),
    "no weights": (lambda at: (at / "model.safetensors").unlink(), "has no model.safetensors"),
    "a pickle": (lambda at: (at / "model.safetensors").rename(at / "pytorch_model.bin"), "a pickle, which is not opened"),
    "no safetensors": (lambda at: (at / "model.safetensors").write_bytes(b"x" * 40), "is not a file of weights"),
    "a foreign weight": (lambda at: weight(at, "lstm.weight"), "'lstm.weight' is no part of this model"),
    "a nameless head": (lambda at: weight(at, "classifier.weight"), "a classifier of unknown kind"),
    "a way out": (lambda at: lead_out(at), "leads out of the folder"),
}  # fmt: skip


def config(at: Path, **changes: object) -> None:
    (at / "config.json").write_text(json.dumps({**CONFIG, **changes}))


def weight(at: Path, name: str) -> None:
    save_file({**load_file(at / "model.safetensors"), name: torch.zeros(2, 16)}, at / "model.safetensors")


def lead_out(at: Path) -> None:
    shutil.move(at / "model.safetensors", at.parent / "elsewhere")
    (at / "model.safetensors").symlink_to("../elsewhere")


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_missing_or_foreign_is_one_sentence(folder: Path, name: str) -> None:
    spoil, sentence = WRONG[name]
    spoil(folder)
    with pytest.raises(RegardError, match=sentence) as caught:
        huggingface_bert.read(folder)
    assert "\n" not in str(caught.value)


def test_words_that_no_vocabulary_has_are_left_out(tmp_path: Path) -> None:
    weights = their_weights()
    table = weights["embeddings.word_embeddings.weight"]
    weights["embeddings.word_embeddings.weight"] = torch.cat([table, torch.ones(2, 16)])
    found = huggingface_bert.read(write_folder(tmp_path / "wide", weights, vocab_size=len(PIECES) + 2))
    assert torch.equal(found.model.bert.token_embedding.weight, table)


def captions(count: int) -> list[str]:
    data = Path(os.environ.get("REGARD_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (data / "multi30k").is_dir():
        pytest.skip(f"no real data in {data}; set REGARD_DATA to the folder that holds multi30k/")
    return gzip.decompress((data / "multi30k" / "train.en.gz").read_bytes()).decode().split("\n")[:count]


def test_the_real_minilm_gives_the_numbers_of_transformers(minilm: Path) -> None:
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: nothing to compare with"
    )
    sentences = captions(200)
    found = huggingface_bert.read(minilm)
    theirs, cut = (
        transformers.AutoModel.from_pretrained(minilm).eval(),
        transformers.AutoTokenizer.from_pretrained(minilm),
    )
    ours = [found.tokenizer.with_special_tokens(ids) for ids in found.tokenizer.encode_batch(sentences)]
    assert ours == [cut(sentence)["input_ids"] for sentence in sentences]
    model = found.model.eval()
    for ids in ours:
        row = torch.tensor([ids])
        with torch.no_grad():
            apart = (model.bert(row, row * 0) - theirs(row).last_hidden_state).abs().max()
        assert float(apart) <= 1e-5


def test_the_real_minilm_gives_the_numbers_that_were_recorded(minilm: Path) -> None:
    """Those of transformers, by `python benchmarks/bert.py parity MINILM SENTENCES --record FILE`."""
    found = huggingface_bert.read(minilm)
    model = found.model.eval()
    recorded = json.loads((Path(__file__).parent / "minilm_recorded.json").read_text("utf-8"))
    texts = [each["text"] for each in recorded]
    assert [found.tokenizer.with_special_tokens(ids) for ids in found.tokenizer.encode_batch(texts)] == [
        each["ids"] for each in recorded
    ]
    for each in recorded:
        row, wanted = torch.tensor([each["ids"]]), torch.tensor(each["hidden"])
        with torch.no_grad():
            hidden = model.bert(row, row * 0)[0, :, : wanted.size(1)]
        assert float((hidden - wanted).abs().max()) <= 1e-5


def test_the_real_minilm_knows_what_is_alike(minilm: Path, tmp_path: Path) -> None:
    import_folder(minilm, tmp_path / "minilm", as_json=False)
    model = regard.load(tmp_path / "minilm")
    dog, hound, stock = model.embed(
        ["A dog runs in the park.", "A hound is running outside.", "Stocks fell on Monday."]
    )
    assert dog @ hound > 0.5 > dog @ stock
    assert dog @ dog == pytest.approx(1, abs=1e-5)
    seen = model.attention("A dog runs.")
    assert seen.source == ["[CLS]", "a", "dog", "runs", ".", "[SEP]"]
    assert seen.layers["encoder.5.self"].shape == (12, 6, 6)
