"""Hugging Face GPT-2 folders: the numbers of the formulas in, the same file out, one sentence for what is foreign."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

import regard
from regard import tokenization
from regard.cli.export import export
from regard.cli.import_folder import import_folder
from regard.errors import RegardError
from regard.interop import huggingface_gpt2

SHAPE = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 24, "vocab_size": 264}
IDS = torch.tensor([[5, 17, 250, 3, 99]])


def their_weights() -> dict[str, torch.Tensor]:
    """Every weight by its name in their files, from a seed."""
    sampling = torch.Generator().manual_seed(7)
    shapes = huggingface_gpt2.hf_shapes(
        huggingface_gpt2.model_config({"model_type": "gpt2", **SHAPE}, Path("config.json"))[0], 264
    )
    return {
        f"transformer.{name}": torch.randn(shape, generator=sampling) * 0.2 for name, shape in shapes.items()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "theirs"
    place.mkdir()
    (place / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **SHAPE})
    )
    save_file(their_weights(), place / "model.safetensors", metadata={"format": "pt"})
    tokenization.train("gpt", ["a text of few words, a text"] * 3, size=264).save(place / "tokenizer.json")
    return place


def written_out(weights: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """GPT-2 by its formulas, from their weights, the biases of keys included."""

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x, (16,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    weights = {name.removeprefix("transformer."): each for name, each in weights.items()}
    x = weights["wte.weight"][ids] + weights["wpe.weight"][: ids.size(1)]
    ahead = torch.ones(ids.size(1), ids.size(1)).triu(1).bool()
    for layer in range(2):
        at = f"h.{layer}"
        heads = [
            part.unflatten(-1, (2, 8)).transpose(1, 2)
            for part in linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn").chunk(3, -1)
        ]
        scores = (heads[0] @ heads[1].transpose(-1, -2) / 8**0.5).masked_fill(ahead, -torch.inf)
        maps = (scores.softmax(-1) @ heads[2]).transpose(1, 2).flatten(-2)
        x = x + linear(maps, f"{at}.attn.c_proj")
        inner = functional.gelu(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, f"{at}.mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def test_the_numbers_are_those_of_the_formulas(folder: Path) -> None:
    found = huggingface_gpt2.read(folder)
    with torch.no_grad():
        ours = found.model.eval()(IDS % found.tokenizer.size)
    wanted = written_out(their_weights(), IDS % found.tokenizer.size)[..., : found.tokenizer.size]
    assert torch.allclose(ours, wanted, atol=1e-5)


def test_from_folder_to_run_and_back(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_folder(folder, tmp_path / "run", as_json=True)
    assert json.loads(capsys.readouterr().out)["task"] == "language-modeling"
    loaded = regard.load(tmp_path / "run")
    export(tmp_path / "run", tmp_path / "back", "huggingface", as_json=True)
    made = json.loads(capsys.readouterr().out)
    assert made["same"] == {"greedy": made["sentences"]}
    assert made["difference"] < 1e-5
    again = huggingface_gpt2.read(tmp_path / "back")
    size = loaded.tokenizer.size  # rows of tokens that the vocabulary does not have were left out
    first, last = load_file(folder / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert set(first) == set(last)
    for name, each in last.items():
        theirs = first[name][:size] if name.endswith("wte.weight") else first[name]
        if name.endswith("c_attn.bias"):  # that of keys is 0: softmax does not see it
            theirs = torch.cat([theirs[:16], torch.zeros(16), theirs[32:]])
        assert torch.equal(each, theirs), name
    with torch.no_grad():
        assert torch.equal(again.model.eval()(IDS % size), loaded.model(IDS % size))
    assert again.config == loaded.recipe.model
    with pytest.raises(RegardError, match="exists and is not empty"):
        export(tmp_path / "run", tmp_path / "back", "huggingface")


def test_older_folders_have_names_without_a_prefix_and_two_files_of_tokens(folder: Path) -> None:
    weights = {name.removeprefix("transformer."): each for name, each in their_weights().items()}
    mask = torch.ones(1, 1, 24, 24)
    save_file(
        {**weights, "h.0.attn.bias": mask, "lm_head.weight": weights["wte.weight"].clone()},
        folder / "model.safetensors",
    )
    before = huggingface_gpt2.read(folder)
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    after = huggingface_gpt2.read(folder)
    assert after.tokenizer.encode("a text of words") == before.tokenizer.encode("a text of words")
    with torch.no_grad():
        assert torch.equal(before.model.eval()(IDS % 257), after.model.eval()(IDS % 257))


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx is True; allowed is False",
        ),
        ({"tie_word_embeddings": False}, "untied output embeddings"),
        ({"activation_function": "quick_gelu"}, "describes no GPT that regard has"),
        ({"n_layer": 3}, "'h.2.attn.c_attn.weight' is missing"),
        ({"vocab_size": 270}, "is 264 x 16, not 270 x 16"),
        ({"n_embd": "wide"}, "describes no GPT that regard has"),
    ],
)
def test_what_is_foreign_is_told(folder: Path, told: dict[str, object], sentence: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **told}))
    with pytest.raises(RegardError) as refused:
        huggingface_gpt2.read(folder)
    assert sentence in str(refused.value)


def test_a_vocabulary_must_be_there(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(RegardError, match="has no vocabulary"):
        huggingface_gpt2.read(folder)
