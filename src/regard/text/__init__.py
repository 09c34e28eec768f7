"""Strings to ids and back: rule-based words, spaCy's words, and subwords, behind one interface.

>>> tokenizer = train("bpe", lines, size=8000)
>>> tokenizer.decode(tokenizer.encode("Two dogs play."))
'Two dogs play.'
"""

from regard.text.bert import BertOptions, BertTokenizer, Pieces, bert_tokenizer
from regard.text.build import KINDS, load, train
from regard.text.joining import join
from regard.text.rules import split
from regard.text.tokenizer import SPECIALS, Tokenizer

__all__ = [
    "KINDS",
    "SPECIALS",
    "BertOptions",
    "BertTokenizer",
    "Pieces",
    "Tokenizer",
    "bert_tokenizer",
    "join",
    "load",
    "split",
    "train",
]
