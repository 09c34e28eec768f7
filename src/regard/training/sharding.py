"""Sharded training (FSDP): every process holds a shard of each weight, and gathers one block at a time.

PyTorch's `fully_shard` gathers a block's weights before it computes and frees them after; gradients are summed
over the processes, and each process keeps its shard of the sum. Optimizer state and averages are sharded too.
Full tensors are gathered, one at a time, for checkpoints and validation.
"""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.nn import DecoderBlock, EncoderBlock
from regard.nn.seq2seq import Seq2SeqModel
from regard.training.distributed import World


def shard(model: nn.Module, world: World, device: torch.device) -> nn.Module | None:
    """Shard a model in place, block by block, so that at most one block is gathered on the device at a time.

    Returns:
        On the first process a full copy in CPU memory, to validate and save; None on the others.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    full_model = copy.deepcopy(model) if world.is_first else None
    mesh = init_device_mesh(device.type, (world.size,))
    for module in model.modules():
        if isinstance(module, EncoderBlock | DecoderBlock):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if isinstance(model, Seq2SeqModel):  # training calls this method, not forward
        register_fsdp_forward_method(model, "hidden")
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # Gradients are sums over tokens, divided by the tokens of all processes: summed, not averaged.
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    return full_model


def is_sharded(model: nn.Module) -> bool:
    return any(is_dtensor(parameter) for parameter in model.parameters())


def is_dtensor(tensor: Tensor) -> bool:
    """Whether this process holds only a shard of the tensor."""
    return hasattr(tensor, "full_tensor")


def local_tensor(tensor: Tensor) -> Tensor:
    """This process's shard of a tensor, or the tensor itself."""
    return cast(Any, tensor).to_local() if is_dtensor(tensor) else tensor


def full_tensor(tensor: Tensor) -> Tensor:
    """The gathered tensor; a collective operation, so every process must call it."""
    return cast(Any, tensor).full_tensor() if is_dtensor(tensor) else tensor


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A full tensor sharded as `like` is; unchanged where `like` is not sharded."""
    if not is_dtensor(like) or is_dtensor(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    sharded = cast(Any, like)
    return distribute_tensor(
        tensor.to(like.device), sharded.device_mesh, sharded.placements, src_data_rank=None
    )


def wrap_local(local: Tensor, like: Tensor) -> Tensor:
    """This process's shard as a distributed tensor like `like`; unchanged where `like` is not sharded."""
    if not is_dtensor(like):
        return local
    from torch.distributed.tensor import DTensor

    sharded = cast(Any, like)
    return DTensor.from_local(
        local,
        sharded.device_mesh,
        sharded.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )
