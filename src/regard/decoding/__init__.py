"""Decoding: beam search, sampling, translation pipeline, text generation, diffusion sampling."""

from regard.decoding.beam_search import BeamSearchConfig, search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.length_policy import LengthPolicy
from regard.decoding.sampling import SamplingConfig, sample
from regard.decoding.translator import Engine, Translation, TranslationPipeline
from regard.nn.seq2seq import Hypothesis

__all__ = [
    "BeamSearchConfig",
    "DecodingConstraints",
    "Engine",
    "Hypothesis",
    "LengthPolicy",
    "SamplingConfig",
    "Translation",
    "TranslationPipeline",
    "sample",
    "search",
]
