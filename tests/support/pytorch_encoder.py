"""PyTorch's encoder layer with the weights of one of our encoder blocks, as a reference."""

import torch
from torch import nn
from torch.nn import functional


def pytorch_encoder_layer(block: nn.Module, eps: float, norm_first: bool = False) -> nn.TransformerEncoderLayer:
    """For blocks of d_model 32, 4 heads, d_ff 48 and GELU."""
    own, forward = block.self_attention.sublayer.attention, block.feed_forward.sublayer
    layer = nn.TransformerEncoderLayer(
        32, 4, 48, 0.0, functional.gelu, layer_norm_eps=eps, batch_first=True, norm_first=norm_first
    ).eval()
    with torch.no_grad():
        layer.self_attn.in_proj_weight.copy_(torch.cat([own.query.weight, own.key.weight, own.value.weight]))
        layer.self_attn.in_proj_bias.copy_(torch.cat([own.query.bias, torch.zeros(32), own.value.bias]))
    pairs = [
        (layer.self_attn.out_proj, own.output), (layer.linear1, forward.fc1), (layer.linear2, forward.fc2),
        (layer.norm1, block.self_attention.norm), (layer.norm2, block.feed_forward.norm),
    ]  # fmt: skip
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    return layer
