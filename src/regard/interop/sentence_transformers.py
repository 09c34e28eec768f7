"""Files of sentence-transformers in a BERT folder: modules, pooling and maximum length."""

from pathlib import Path
from typing import cast

from regard.config.models import EmbedConfig, Pooling
from regard.errors import RegardError
from regard.interop.model_folders import read_json

WITHOUT_MODULES = "to import the BERT alone, with mean pooling, use a copy of the folder without modules.json"
"""The end of the messages that refuse modules of sentence-transformers."""

POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of 1_Pooling/config.json before sentence-transformers 6, and the values of `pooling_mode` since then."""


def read_embed_config(folder: Path, positions: int) -> EmbedConfig:
    """Pooling, normalisation and maximum length of text vectors; the defaults without modules.json.

    Args:
        folder: A Hugging Face folder.
        positions: Number of positions of the model.

    Raises:
        RegardError: The folder has other modules or another pooling mode than regard supports.
    """
    if not (folder / "modules.json").exists():
        return EmbedConfig()
    modules = read_json(folder, "modules.json", list)
    kinds = [module_class(module) for module in modules]
    if kinds == ["Transformer"]:
        return EmbedConfig()
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise RegardError(
            f"{folder / 'modules.json'}: its modules are {', '.join(kinds) or 'none'}; allowed are "
            f"Transformer, Pooling and, after these, Normalize; {WITHOUT_MODULES}"
        )
    pooling = read_pooling(folder, str(modules[1].get("path", "1_Pooling")))
    return EmbedConfig(pooling, "Normalize" in kinds, read_max_length(folder, positions))


def module_class(module: object) -> str:
    """The class name of a module, with its package if that is not sentence-transformers."""
    kind = str(module.get("type", "")) if isinstance(module, dict) else ""
    return kind.rsplit(".", 1)[-1] if kind.startswith("sentence_transformers.") else kind or repr(module)


def read_pooling(folder: Path, path: str) -> Pooling:
    """The pooling mode in a Pooling module's config.json; the default is mean."""
    name = f"{path}/config.json"
    settings = read_json(folder, name)
    modes = settings.get("pooling_mode")
    if modes is None:
        older = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value]
        modes = [POOLING_KEYS.get(key, key) for key in older] or "mean"
    match modes if isinstance(modes, list) else [modes]:
        case ["mean" | "cls" | "max" as mode]:
            return cast(Pooling, mode)
        case other:
            raise RegardError(
                f"{folder / name}: the pooling mode is {' + '.join(map(str, other)) or 'missing'}; allowed is "
                f"one of mean, cls and max; {WITHOUT_MODULES}"
            )


def read_max_length(folder: Path, positions: int) -> int:
    """Maximum number of tokens in sentence-transformers; 0 for as many as the model has positions.

    Since version 6 it is the tokenizer's `model_max_length`.
    """
    keys = {"sentence_bert_config.json": "max_seq_length", "tokenizer_config.json": "model_max_length"}
    for name, key in keys.items():
        value = read_json(folder, name).get(key) if (folder / name).exists() else None
        if isinstance(value, int) and value > 0:
            return value if value < positions else 0
    return 0


def module_files(embed: EmbedConfig, size: int) -> dict[str, object]:
    """Contents of sentence-transformers' files, by name, for the same text vectors."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), *([("2_Normalize", "Normalize")] * embed.normalize)]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(kinds)
    ]
    modes = {key: mode == embed.pooling for key, mode in POOLING_KEYS.items()}
    pooling = {"word_embedding_dimension": size, **modes}
    files: dict[str, object] = {"modules.json": modules, "1_Pooling/config.json": pooling}
    if embed.max_length:
        files["sentence_bert_config.json"] = {"max_seq_length": embed.max_length, "do_lower_case": False}
    return files
