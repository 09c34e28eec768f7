"""Hugging Face's ViT folders: the same numbers as `transformers`, and what is wrong told in a sentence."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import regard
from regard.errors import RegardError
from regard.interop import huggingface_vit
from regard.tasks.import_run import import_run

SHAPE = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 12,
    "patch_size": 4, "num_channels": 3, "num_labels": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory):
    """Their model with weights of chance, and the folder it was saved to."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(**SHAPE, id2label={0: "cat", 1: "dog", 2: "cow"})
    ).eval()
    for each in model.parameters():
        torch.nn.init.normal_(each, std=0.2)
    folder = tmp_path_factory.mktemp("vit")
    model.save_pretrained(folder)
    told = {"do_normalize": True, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]}
    (folder / "preprocessor_config.json").write_text(json.dumps(told))
    return model, folder


def test_logits_are_theirs(peer) -> None:
    theirs, folder = peer
    found = huggingface_vit.read(folder)
    assert found.labels == ("cat", "dog", "cow")
    assert found.new_weights == ()
    pixels = torch.rand(4, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    mean, spread = (torch.tensor(each).view(3, 1, 1) for each in ((0.4, 0.5, 0.6), (0.2, 0.3, 0.25)))
    with torch.no_grad():
        expected = theirs((pixels - mean) / spread).logits
        assert torch.allclose(found.model.eval()(pixels), expected, atol=1e-5)


def test_an_imported_run_labels_files_and_others_start_from_it(peer, tmp_path: Path) -> None:
    theirs, folder = peer
    made = import_run(folder, tmp_path / "run")
    assert (made.task, made.labels) == ("image-classification", ("cat", "dog", "cow"))
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    (judged,) = regard.load(tmp_path / "run").classify([tmp_path / "image.png"])
    given = torch.from_numpy(pixels.transpose(2, 0, 1).copy()).float()[None] / 255
    mean, spread = (torch.tensor(each).view(3, 1, 1) for each in ((0.4, 0.5, 0.6), (0.2, 0.3, 0.25)))
    with torch.no_grad():
        shares = theirs((given - mean) / spread).logits.softmax(-1)[0]
    assert judged.probability == pytest.approx(float(shares.max()), abs=1e-5)
    assert judged.label == ("cat", "dog", "cow")[int(shares.argmax())]


def test_a_folder_without_a_head_starts_one(peer, tmp_path: Path) -> None:
    _, folder = peer
    weights = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("vit."): each for name, each in weights.items() if "classifier" not in name}
    save_file(bare, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    assert huggingface_vit.read(tmp_path).new_weights == ("labels.weight", "labels.bias")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hidden_size": 30}, "describes no ViT that regard has: heads: 4 heads do not divide d_model 30"),
        ({"hidden_act": "quick_gelu"}, "describes no ViT that regard has: activation"),
        ({"image_size": 16}, "does not hold the ViT of its config.json"),
        ({"image_size": "large"}, "describes no ViT that regard has: height"),
        ({"num_hidden_layers": 4}, "does not hold the ViT of its config.json: 'vit.encoder.layer.3"),
        ({"qkv_bias": False}, "has no biases in its attention"),
        (
            {"problem_type": "multi_label_classification"},
            "problem_type is 'multi_label_classification'; allowed",
        ),
    ],
)
def test_what_does_not_fit_is_refused(peer, tmp_path: Path, changes: dict[str, object], told: str) -> None:
    _, folder = peer
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(RegardError) as caught:
        huggingface_vit.read(tmp_path)
    assert told in str(caught.value)
