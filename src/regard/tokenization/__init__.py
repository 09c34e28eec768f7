"""Tokenizers: words by rule or by spaCy, subwords, characters and bytes, with one interface.

>>> tokenizer = train("bpe", lines, size=8000)
>>> tokenizer.decode(tokenizer.encode("Two dogs play."))
'Two dogs play.'
"""

from regard.tokenization.bert import BertOptions, BertTokenizer, Encoding, bert_tokenizer
from regard.tokenization.build import KINDS, load, train
from regard.tokenization.characters import CharacterTokenizer
from regard.tokenization.gpt import GptTaskTokenizer, GptTokenizer, gpt_tokenizer
from regard.tokenization.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.tokenization.unknown_words import (
    UnknownWord,
    unknown_tokens,
    unknown_words,
    unknown_words_message,
    word_count,
)
from regard.tokenization.word_rules import detokenize, split_words

__all__ = [
    "KINDS",
    "SPECIAL_TOKENS",
    "BertOptions",
    "BertTokenizer",
    "CharacterTokenizer",
    "Encoding",
    "GptTaskTokenizer",
    "GptTokenizer",
    "Tokenizer",
    "UnknownWord",
    "bert_tokenizer",
    "detokenize",
    "gpt_tokenizer",
    "load",
    "split_words",
    "train",
    "unknown_tokens",
    "unknown_words",
    "unknown_words_message",
    "word_count",
]
