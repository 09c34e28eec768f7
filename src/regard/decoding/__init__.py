"""From a trained model to text: one search for every model that can be asked for the next token."""

from regard.decoding.engine import Engine
from regard.decoding.fitting import Policy, Tell
from regard.decoding.limits import Limits
from regard.decoding.sampling import SamplingConfig, sample
from regard.decoding.search import BeamSearchConfig, search
from regard.decoding.translator import Translation, TranslationPipeline
from regard.nn.seq2seq import Hypothesis

__all__ = [
    "BeamSearchConfig",
    "Engine",
    "Hypothesis",
    "Limits",
    "Policy",
    "SamplingConfig",
    "Tell",
    "Translation",
    "TranslationPipeline",
    "sample",
    "search",
]
