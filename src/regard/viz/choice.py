"""Which of the layers and heads is to be seen."""

from regard.errors import RegardError, did_you_mean
from regard.viz.measures import rollout
from regard.viz.payload import AttentionMaps, Layer


def every_layer(maps: AttentionMaps) -> dict[str, Layer]:
    """What was recorded, and the rollout over it; a model that recorded nothing is told so."""
    if not maps.layers:
        raise RegardError("this model has no attention: there is nothing to look at")
    return {**maps.layers, **rollout(maps)}


def chosen_layer(maps: AttentionMaps, name: str | None = None) -> str:
    """The layer of that name; without one, the layer that aligns best, or the last where none aligns."""
    layers = every_layer(maps)
    if name is None:
        return maps.aligning if any(each.endswith("cross") for each in layers) else list(maps.layers)[-1]
    if name not in layers:
        raise RegardError(
            f"there is no layer {name!r}{did_you_mean(name, layers)}; there are {', '.join(layers)}"
        )
    return name


def check_head(name: str, layer: Layer, head: int | None) -> None:
    if head is not None and head >= len(layer.weights):
        known = "one head, 0" if len(layer.weights) == 1 else f"heads 0 to {len(layer.weights) - 1}"
        raise RegardError(f"there is no head {head} in {name}: it has {known}")
