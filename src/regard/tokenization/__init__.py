"""Strings to ids and back: rule-based words, spaCy's words, subwords and letters, behind one interface.

>>> tokenizer = train("bpe", lines, size=8000)
>>> tokenizer.decode(tokenizer.encode("Two dogs play."))
'Two dogs play.'
"""

from regard.tokenization.bert import BertOptions, BertTokenizer, Pieces, bert_tokenizer
from regard.tokenization.build import KINDS, load, train
from regard.tokenization.gpt import GptTokenizer, gpt_tokenizer
from regard.tokenization.joining import join
from regard.tokenization.letters import LetterTokenizer
from regard.tokenization.marked import MarkedTokenizer
from regard.tokenization.rules import split
from regard.tokenization.tokenizer import SPECIALS, Tokenizer

__all__ = [
    "KINDS",
    "SPECIALS",
    "BertOptions",
    "BertTokenizer",
    "GptTokenizer",
    "LetterTokenizer",
    "MarkedTokenizer",
    "Pieces",
    "Tokenizer",
    "bert_tokenizer",
    "gpt_tokenizer",
    "join",
    "load",
    "split",
    "train",
]
