"""Translation with an encoder-decoder."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import memory_hint
from regard.tasks.spec import EvaluateOptions, ExportOptions, TaskSpec, refuse_data, refuse_merge
from regard.tasks.translation.config import TranslationRecipe

if TYPE_CHECKING:
    from regard.tasks.export import ExportCheck
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.run_folder import RunFolder
    from regard.tasks.translation.model import Evaluation, Translator
    from regard.tasks.translation.task import TranslationRun
    from regard.viz.attention_maps import AttentionMaps


class TranslationSpec(TaskSpec[TranslationRecipe, "Translator"]):
    """Translation with an encoder-decoder."""

    name = "translation"
    recipe = TranslationRecipe
    commands = (
        "translate",
        "remember",
        "compare",
        "report",
        "bench",
    )
    routes = ("/translate",)

    def train(
        self, recipe: TranslationRecipe, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TranslationRun | None":
        from regard.tasks.translation.task import train

        return train(recipe, out, listener, resume=resume)

    def has_attention(self, recipe: TranslationRecipe) -> bool:
        return getattr(recipe.model, "attention", "") != "none"

    def load(self, folder: "RunFolder", recipe: TranslationRecipe) -> "Translator":
        from regard.tasks.translation.model import Translator

        return Translator(folder, recipe)

    def load_ensemble(
        self, folder: "RunFolder", recipe: TranslationRecipe, others: Sequence[str | Path]
    ) -> "Translator":
        from regard.tasks.translation.model import Translator

        return Translator(folder, recipe, [Translator.load(run) for run in others])

    def evaluate(self, loaded: "Translator", options: EvaluateOptions) -> "Evaluation":
        from regard.tasks.translation.model import memory_advice, pairs_of_files

        refuse_merge(options)
        refuse_data(options)
        batch_size = options.batch_size or loaded.recipe.decode.batch_size
        with memory_hint(memory_advice(batch_size, loaded.options(options.beam).beam)):
            pairs = pairs_of_files(options.source, options.target) or loaded.test_pairs()
            return loaded.evaluate(pairs, beam=options.beam, batch_size=batch_size)

    def attention(self, loaded: "Translator", text: str, target: str | None) -> "AttentionMaps":
        return loaded.attention(text, target)

    def export(self, loaded: "Translator", options: ExportOptions) -> "ExportCheck":
        from regard.tasks.translation.export import export

        return export(loaded, options)
