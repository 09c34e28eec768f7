"""A small random BERT in the folder format of Hugging Face."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{c}" for c in "abcdefg"),
]
CONFIG = {
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": len(PIECES), "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 20,
    "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}  # fmt: skip


def their_weights(prefix: str = "") -> dict[str, torch.Tensor]:
    """Random weights under the names of Hugging Face."""
    generator = torch.Generator().manual_seed(3)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * 0.2

    weights = {
        "embeddings.word_embeddings.weight": random(len(PIECES), 16),
        "embeddings.position_embeddings.weight": random(20, 16),
        "embeddings.token_type_embeddings.weight": random(2, 16),
        "embeddings.LayerNorm.weight": 1 + random(16),
        "embeddings.LayerNorm.bias": random(16),
        "embeddings.position_ids": torch.arange(20).unsqueeze(0),
        "pooler.dense.weight": random(16, 16),
        "pooler.dense.bias": random(16),
    }
    shapes = {
        "attention.self.query": (16, 16), "attention.self.key": (16, 16), "attention.self.value": (16, 16),
        "attention.output.dense": (16, 16), "attention.output.LayerNorm": (16,), "intermediate.dense": (24, 16),
        "output.dense": (16, 24), "output.LayerNorm": (16,),
    }  # fmt: skip
    for layer in range(2):
        for name, shape in shapes.items():
            weights[f"encoder.layer.{layer}.{name}.weight"] = random(*shape)
            weights[f"encoder.layer.{layer}.{name}.bias"] = random(shape[0])
    return {prefix + name: weight for name, weight in weights.items()}


def write_folder(folder: Path, weights: dict[str, torch.Tensor], **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", "utf-8")
    save_file(weights, folder / "model.safetensors")
    return folder
