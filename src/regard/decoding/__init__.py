"""From a trained model to text: one search for every model that can be asked for the next token."""

from regard.decoding.beam_search import BeamSearchConfig, search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.engine import Engine
from regard.decoding.fitting import Policy, Tell
from regard.decoding.sampling import SamplingConfig, sample
from regard.decoding.translator import Translation, TranslationPipeline
from regard.nn.seq2seq import Hypothesis

__all__ = [
    "BeamSearchConfig",
    "DecodingConstraints",
    "Engine",
    "Hypothesis",
    "Policy",
    "SamplingConfig",
    "Tell",
    "Translation",
    "TranslationPipeline",
    "sample",
    "search",
]
