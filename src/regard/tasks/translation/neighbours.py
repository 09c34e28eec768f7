"""The neighbours that a run folder holds: one file beside the weights."""

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


def keep(folder: RunFolder, model: Seq2SeqModel, neighbours: Datastore) -> None:
    """Write them for this model; those of before are gone then."""
    numbers = (neighbours.count, neighbours.weight, float(neighbours.score.sharpness))
    tensors = {
        "keys": neighbours.keys,
        "words": neighbours.tokens,
        "numbers": torch.tensor(numbers, dtype=torch.float64),
        "made_with": made_with(model),
    }
    with storage.atomic_path(folder.path / FILE) as part:
        write_tensors(tensors, part)


def forget(folder: RunFolder) -> bool:
    """Without its neighbours, the run translates as it was trained; whether it had any."""
    had = (folder.path / FILE).exists()
    (folder.path / FILE).unlink(missing_ok=True)
    return had


def remembered(folder: RunFolder, model: Seq2SeqModel) -> Datastore | None:
    """The neighbours that the folder holds for this model, if any; nothing in the file is believed unseen."""
    if not (folder.path / FILE).exists():
        return None
    path = folder.file(FILE)
    try:
        found = load_file(path)
        keys, words, numbers = found["keys"], found["words"], found["numbers"].tolist()
        count, weight, sharpness = int(numbers[0]), float(numbers[1]), float(numbers[2])
        outputs, width = model.output[0].shape
        if (
            words.dim() != 1
            or keys.shape != (len(words), width)
            or keys.dtype != torch.float16
            or words.dtype != torch.int32
        ):
            raise ValueError(f"its keys are no vectors of {width} numbers with a word each")
        if not (int(words.min()) >= 0 and int(words.max()) < outputs and bool(keys.isfinite().all())):
            raise ValueError("it has words that the model does not know, or keys that are no numbers")
        if not (0 < weight < 1 and 0 < sharpness < math.inf):
            raise ValueError(
                f"neighbours have a say between 0 and 1, not {weight}, and a sharpness, not {sharpness}"
            )
        if not torch.equal(found["made_with"], made_with(model)):
            raise ValueError("it was made with another model")
        kept = Datastore(keys, words, count=count, weight=weight, sharpness=sharpness)
    except (
        SafetensorError,
        OSError,
        LookupError,
        ArithmeticError,
        TypeError,
        ValueError,
        RuntimeError,
    ) as problem:
        raise RegardError(
            f"{path} is damaged: {problem}; `regard remember` makes it anew, or --forget removes it"
        ) from None
    return kept.to(model.output[0].device)


def made_with(model: Seq2SeqModel) -> Tensor:
    """A mark of the model, by which its neighbours are told from those of another."""
    bias = model.output[1].detach().cpu().contiguous()
    return torch.tensor(list(hashlib.sha256(bias.numpy().tobytes()).digest()), dtype=torch.uint8)
