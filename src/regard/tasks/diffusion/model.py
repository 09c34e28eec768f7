"""A U-Net opened: pictures for prompts."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from regard import tokenization
from regard.decoding.diffusion import DiffusionConfig
from regard.errors import RegardError, did_you_mean
from regard.tasks.diffusion.config import DiffusionRecipe
from regard.tasks.diffusion.task import build_unet, options_of, painted
from regard.tasks.loaded_model import LoadedModel
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import split
from regard.training.devices import choose_device
from regard.viz.generated_images import GeneratedImages


class ImageGenerator(LoadedModel):
    """A diffusion model that makes images of prompts."""

    does = "paints"
    recipe: DiffusionRecipe

    def __init__(self, folder: RunFolder, recipe: DiffusionRecipe) -> None:
        self.folder, self.recipe = folder, recipe
        self.tokenizer = tokenization.load(folder.file(JOINT))
        with torch.device("meta"):
            folder.check_weights(build_unet(recipe.model, self.tokenizer))
        model = build_unet(recipe.model, self.tokenizer)
        folder.load_weights(model)
        self.model = model.to(choose_device()).eval()

    @property
    def words(self) -> list[str]:
        """The words that a prompt may have."""
        specials = {self.tokenizer.begin, self.tokenizer.end, self.tokenizer.padding, self.tokenizer.unknown}
        return sorted(
            self.tokenizer.tokens(each for each in range(self.tokenizer.size) if each not in specials)
        )

    def options(self, **given: Any) -> DiffusionConfig:
        """The recipe's way of painting, with what is given and not None: sampler, steps, guidance, merge."""
        known = {name: value for name, value in given.items() if value is not None}
        return replace(options_of(self.recipe), **known)

    def paint(
        self, prompts: Sequence[str], each: int = 1, seed: int = 1, options: DiffusionConfig | None = None
    ) -> GeneratedImages:
        """So many pictures for each prompt; the same seed gives the same pictures."""
        if not prompts:
            raise RegardError("there is no prompt to paint")
        for prompt in prompts:
            self.check(prompt)
        begun = time.perf_counter()
        found = painted(self.model, self.tokenizer, prompts, options or self.options(), each, seed)
        return GeneratedImages(list(prompts), found, time.perf_counter() - begun)

    def check(self, prompt: str) -> None:
        """Refuse a prompt that says nothing, or has words that this model never read."""
        words = split(self.tokenizer.normalize(prompt))
        if not words:
            raise RegardError("a prompt is empty; to paint without one, set the guidance to 0")
        ids = self.tokenizer.encode(prompt)
        unknown = [word for word, one in zip(words, ids, strict=True) if one == self.tokenizer.unknown]
        if unknown:
            known = self.words
            named = ", ".join(f"{word!r}{did_you_mean(word, known)}" for word in dict.fromkeys(unknown))
            shown = ", ".join(known[:80])
            raise RegardError(f"the prompt {prompt!r} has unknown words: {named}; this model knows {shown}")
