"""A trained diffusion model: images from prompts."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from regard import tokenization
from regard.decoding.diffusion import DiffusionConfig
from regard.errors import RegardError, did_you_mean
from regard.tasks.diffusion.config import DiffusionRecipe
from regard.tasks.diffusion.task import build_unet, generate_images, sampling_options
from regard.tasks.loaded_model import LoadedModel
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import split_words
from regard.training.devices import choose_device
from regard.viz.generated_images import GeneratedImages


class ImageGenerator(LoadedModel):
    """A diffusion model that generates images from prompts."""

    does = "generates images"
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
        """The words of the prompt vocabulary."""
        specials = {self.tokenizer.begin, self.tokenizer.end, self.tokenizer.padding, self.tokenizer.unknown}
        return sorted(
            self.tokenizer.tokens(token for token in range(self.tokenizer.size) if token not in specials)
        )

    def options(self, **overrides: Any) -> DiffusionConfig:
        """The recipe's sampling settings, with overrides that are not None: sampler, steps, guidance, merge."""
        changes = {name: value for name, value in overrides.items() if value is not None}
        return replace(sampling_options(self.recipe), **changes)

    def paint(
        self, prompts: Sequence[str], count: int = 1, seed: int = 1, options: DiffusionConfig | None = None
    ) -> GeneratedImages:
        """Generate images; the same seed gives the same images.

        Args:
            prompts: Descriptions in words of the prompt vocabulary.
            count: Images per prompt.
            seed: Seed of the first image of each prompt; the next ones use the following seeds.
            options: Sampling settings; None for the recipe's.

        Raises:
            RegardError: There is no prompt, or one is empty or has unknown words.
        """
        if not prompts:
            raise RegardError("there is no prompt; give at least one")
        for prompt in prompts:
            self.check(prompt)
        start = time.perf_counter()
        images = generate_images(self.model, self.tokenizer, prompts, options or self.options(), count, seed)
        return GeneratedImages(list(prompts), images, time.perf_counter() - start, seed)

    def check(self, prompt: str) -> None:
        """Refuse a prompt that is empty or has unknown words."""
        words = split_words(self.tokenizer.normalize(prompt))
        if not words:
            raise RegardError("a prompt is empty; for images without a prompt set the guidance scale to 0")
        ids = self.tokenizer.encode(prompt)
        unknown = [word for word, token in zip(words, ids, strict=True) if token == self.tokenizer.unknown]
        if unknown:
            vocabulary = self.words
            listed = ", ".join(f"{word!r}{did_you_mean(word, vocabulary)}" for word in dict.fromkeys(unknown))
            allowed = ", ".join(vocabulary[:80])
            raise RegardError(f"the prompt {prompt!r} has unknown words: {listed}; allowed: {allowed}")
