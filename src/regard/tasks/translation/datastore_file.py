"""The kNN datastore in a run folder: one file next to the weights, valid only with these weights."""

import hashlib
import math

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard import storage
from regard.errors import RegardError
from regard.nn.knn import Datastore
from regard.nn.seq2seq import Seq2SeqModel
from regard.tasks.run_folder import RunFolder
from regard.tensor_files import write_tensors

FILE = "neighbours.safetensors"


def save_datastore(folder: RunFolder, model: Seq2SeqModel, datastore: Datastore) -> None:
    """Write the datastore that was built with this model; an earlier one is replaced."""
    settings = (datastore.count, datastore.weight, float(datastore.score.sharpness))
    tensors = {
        "keys": datastore.keys,
        "words": datastore.tokens,
        "numbers": torch.tensor(settings, dtype=torch.float64),
        "made_with": fingerprint(model),
    }
    with storage.atomic_path(folder.path / FILE) as temporary:
        write_tensors(tensors, temporary)


def delete_datastore(folder: RunFolder) -> bool:
    """Delete the datastore; returns whether there was one."""
    existed = (folder.path / FILE).exists()
    (folder.path / FILE).unlink(missing_ok=True)
    return existed


def load_datastore(folder: RunFolder, model: Seq2SeqModel) -> Datastore | None:
    """The folder's datastore on the model's device; None if there is none.

    Raises:
        RegardError: The file is damaged, or was built with another model.
    """
    if not (folder.path / FILE).exists():
        return None
    path = folder.file(FILE)
    try:
        tensors = load_file(path)
        keys, tokens, settings = tensors["keys"], tensors["words"], tensors["numbers"].tolist()
        count, weight, sharpness = int(settings[0]), float(settings[1]), float(settings[2])
        vocabulary, width = model.output[0].shape
        if (
            tokens.dim() != 1
            or keys.shape != (len(tokens), width)
            or keys.dtype != torch.float16
            or tokens.dtype != torch.int32
        ):
            raise ValueError(f"it does not hold float16 keys of width {width} with one int32 token each")
        if not (int(tokens.min()) >= 0 and int(tokens.max()) < vocabulary):
            raise ValueError(f"it has token ids outside the vocabulary of {vocabulary}")
        if not bool(keys.isfinite().all()):
            raise ValueError("it has keys that are not finite")
        if not (0 < weight < 1 and 0 < sharpness < math.inf):
            raise ValueError(
                f"its weight {weight} is not between 0 and 1, or its sharpness {sharpness} is not positive"
            )
        if not torch.equal(tensors["made_with"], fingerprint(model)):
            raise ValueError("it was built with another model")
        datastore = Datastore(keys, tokens, count=count, weight=weight, sharpness=sharpness)
    except (
        SafetensorError,
        OSError,
        LookupError,
        ArithmeticError,
        TypeError,
        ValueError,
        RuntimeError,
    ) as error:
        raise RegardError(
            f"{path} is damaged: {error}; build it again with `regard remember`, or delete it with --forget"
        ) from None
    return datastore.to(model.output[0].device)


def fingerprint(model: Seq2SeqModel) -> Tensor:
    """A digest of the output bias, which differs between models."""
    bias = model.output[1].detach().cpu().contiguous()
    return torch.tensor(list(hashlib.sha256(bias.numpy().tobytes()).digest()), dtype=torch.uint8)
