"""Strings to ids and back: rule-based words, spaCy's words, subwords and letters, behind one interface.

>>> tokenizer = train("bpe", lines, size=8000)
>>> tokenizer.decode(tokenizer.encode("Two dogs play."))
'Two dogs play.'
"""

from regard.text.bert import BertOptions, BertTokenizer, Pieces, bert_tokenizer
from regard.text.build import KINDS, load, train
from regard.text.gpt import GptTokenizer, gpt_tokenizer
from regard.text.joining import join
from regard.text.letters import LetterTokenizer
from regard.text.marked import MarkedTokenizer
from regard.text.rules import split
from regard.text.tokenizer import SPECIALS, Tokenizer

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
