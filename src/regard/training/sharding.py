"""A model too large for one device: every process holds a part of each weight, and all of one block at a time.

PyTorch's fully sharded data parallel does the work: a block's weights are brought together before it computes
and let go after it, gradients are added up over the processes and each keeps its part of the sum. Optimizer and
averages then have parts only. The whole is put together, tensor by tensor, for checkpoints and validation.
"""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.nn import DecoderBlock, EncoderBlock
from regard.nn.seq2seq import Seq2SeqModel
from regard.training.distributed import World


def shard(model: nn.Module, world: World, device: torch.device) -> nn.Module | None:
    """Cut a model in place, block by block, so that never more than one block is whole on the device.

    The first process gets a whole copy, in its own memory, to validate with and to write.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    kept = copy.deepcopy(model) if world.first else None
    processes = init_device_mesh(device.type, (world.size,))
    for module in model.modules():
        if isinstance(module, EncoderBlock | DecoderBlock):
            fully_shard(module, mesh=processes)
    fully_shard(model, mesh=processes)
    if isinstance(model, Seq2SeqModel):  # training calls this method, not forward
        register_fsdp_forward_method(model, "hidden")
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # Gradients are sums over tokens, divided by the tokens of all: they are added, not averaged.
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    return kept


def is_sharded(model: nn.Module) -> bool:
    return any(is_part(each) for each in model.parameters())


def is_part(tensor: Tensor) -> bool:
    """Whether a process has a part of this tensor only."""
    return hasattr(tensor, "full_tensor")


def own(tensor: Tensor) -> Tensor:
    """What of a tensor this process has: its part, or all."""
    return cast(Any, tensor).to_local() if is_part(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor; every process must ask."""
    return cast(Any, tensor).full_tensor() if is_part(tensor) else tensor


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """The part of a whole tensor that this process has of the tensor `like`."""
    if not is_part(like) or is_part(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    cut = cast(Any, like)
    return distribute_tensor(tensor.to(like.device), cut.device_mesh, cut.placements, src_data_rank=None)


def as_part(mine: Tensor, like: Tensor) -> Tensor:
    """What this process has, as a part of a tensor cut like `like`."""
    if not is_part(like):
        return mine
    from torch.distributed.tensor import DTensor

    cut = cast(Any, like)
    return DTensor.from_local(
        mine, cut.device_mesh, cut.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
