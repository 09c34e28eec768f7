"""What the tasks of a BERT or a GPT share, and the task of an encoder without a head."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import RegardError
from regard.tasks.encoder.config import EncoderRecipe
from regard.tasks.spec import (
    EvaluateOptions,
    ExportOptions,
    ModelType,
    RecipeType,
    TaskSpec,
    evaluate_on_data,
)

if TYPE_CHECKING:
    from regard.nn.build import Head
    from regard.tasks.encoder.model import Encoder
    from regard.tasks.export import ExportCheck
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.results import Result, TrainedRun
    from regard.tasks.run_folder import RunFolder
    from regard.viz.attention_maps import AttentionMaps


class TextTaskSpec(TaskSpec[RecipeType, ModelType]):
    """A task whose run holds a BERT, a GPT or an n-gram model, with one vocabulary."""

    head: ClassVar["Head"]
    """The module on top of the body."""
    has_labels: ClassVar[bool] = False
    """Whether the run folder has a list of classes or tags."""

    def evaluate(self, loaded: ModelType, options: EvaluateOptions) -> "Result":
        return evaluate_on_data(loaded, options)

    def attention(self, loaded: Any, text: str, target: str | None) -> "AttentionMaps":
        maps: AttentionMaps = loaded.attention(text, target)
        return maps


class EncoderTaskSpec(TextTaskSpec[RecipeType, ModelType]):
    """A task of a BERT, or of a GPT that labels."""

    commands: ClassVar[tuple[str, ...]] = ("embed",)
    routes: ClassVar[tuple[str, ...]] = ("/embed",)

    def export(self, loaded: Any, options: ExportOptions) -> "ExportCheck":
        from regard.tasks.encoder.export import export

        return export(loaded, options)


class EncoderSpec(EncoderTaskSpec[EncoderRecipe, "Encoder"]):
    """A BERT without a head, as it is imported: text embeddings."""

    name = "encoder"
    recipe = EncoderRecipe
    head = "none"

    def train(
        self, recipe: EncoderRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TrainedRun | None":
        raise RegardError("task encoder cannot be trained; train another task that starts from it: model.start")

    def load(self, folder: "RunFolder", recipe: EncoderRecipe) -> "Encoder":
        from regard.tasks.encoder.model import Encoder
        from regard.tasks.encoder.run_folder import TextRunFolder

        return Encoder(TextRunFolder(folder, recipe))
