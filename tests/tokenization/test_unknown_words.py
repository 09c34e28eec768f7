"""Unknown words: which ones, where they stand in the text, and how they are reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tokenization import (
    BertOptions,
    Tokenizer,
    bert_tokenizer,
    train,
    unknown_tokens,
    unknown_words,
    unknown_words_message,
)
from regard.tokenization.bert import BERT_SPECIAL_TOKENS

SENTENCES = [
    "Ein alter Mann liest gestern über eine Zeitung.",
    "Der Hund schläft im Café, und 2 Kinder spielen.",
]
WORDS = train("words", SENTENCES, min_count=1)
LOWERCASE = train("words", SENTENCES, min_count=1, lowercase=True, normalization="nfkc")
BPE = train("bpe", SENTENCES, size=150, unseen="unknown")
TOKENIZERS: dict[str, Tokenizer] = {
    "words": WORDS,
    "lowercase": LOWERCASE,
    "space": train("space", SENTENCES, min_count=1),
    "bpe": BPE,
    "bytes-bpe": train("bpe", SENTENCES, size=400, lowercase=True, normalization="nfkc"),
    "unigram": train("unigram", SENTENCES, size=100, unseen="unknown"),
    "wordpiece": train("wordpiece", SENTENCES, size=150),
    "bert": bert_tokenizer([*BERT_SPECIAL_TOKENS, "hund", "der", "##e", ".", "im"], BertOptions()),
    "characters": train("characters", SENTENCES),
    "bytes": train("bytes", SENTENCES),
    "gpt": train("gpt", SENTENCES, size=260),
}


def spelled(tokenizer: Tokenizer, text: str) -> list[str]:
    return [word.text for word in unknown_words(tokenizer, text)]


def test_unknown_words_with_their_positions() -> None:
    text = "Donald Trump twitterte gestern über Quantencomputer."
    unknown = unknown_words(WORDS, text)
    assert [word.text for word in unknown] == ["Donald", "Trump", "twitterte", "Quantencomputer"]
    assert all(text[word.start : word.end] == word.text for word in unknown)
    assert unknown_words_message(WORDS, text, unknown) == (
        f"4 of 6 words are not in the model's vocabulary ({WORDS.size} words): "
        "Donald, Trump, twitterte, Quantencomputer"
    )


def test_no_unknown_words() -> None:
    assert unknown_words(WORDS, "Der Hund liest eine Zeitung.") == unknown_words(WORDS, "") == ()


def test_case_and_normalization_of_the_vocabulary_are_respected() -> None:
    assert spelled(WORDS, "DER Hund") == ["DER"]
    assert spelled(LOWERCASE, "DER Hund schläft im Cafe\u0301") == []
    assert spelled(WORDS, "im Cafe\u0301") == ["Cafe\u0301"]
    text = "im ﬁnsteren İstanbul ½ Cafe\u0301s der HUND"
    assert spelled(LOWERCASE, text) == ["ﬁnsteren", "İstanbul", "½", "Cafe\u0301s"]


@pytest.mark.parametrize("name", ["bpe", "unigram", "wordpiece", "characters", "bert"])
def test_a_word_with_an_unknown_piece_is_unknown(name: str) -> None:
    assert spelled(TOKENIZERS[name], "Der Hundžž, im Hund.") == ["Hundžž"] + ([","] if name == "bert" else [])


def test_text_without_blanks_is_reported_by_character() -> None:
    assert spelled(BPE, "Hund 日本") == ["日", "本"]


@pytest.mark.parametrize("name", ["bytes", "bytes-bpe", "gpt"])
def test_byte_level_vocabularies_know_every_word(name: str) -> None:
    assert spelled(TOKENIZERS[name], "Donald שלום 🙂 日本 <unk>") == []


def test_an_emoji_of_several_characters_is_one_word() -> None:
    unknown = unknown_words(WORDS, "Hund 👩‍👩‍👧 Ein")
    assert [word.text for word in unknown] == ["👩‍👩‍👧"]
    assert unknown_words_message(WORDS, "Hund 👩‍👩‍👧 Ein", unknown).startswith("1 of 3 words is not")


def test_a_message_lists_each_word_once_and_the_first_ones_only() -> None:
    text = " ".join(f"wort{number // 2}" for number in range(40))
    message = unknown_words_message(WORDS, text, unknown_words(WORDS, text))
    assert message.startswith("40 of 40 words are")
    assert message.endswith(": wort0, wort1, wort2, wort3, wort4, wort5, wort6, wort7, ...")


def test_words_spelled_like_a_special_token_are_unknown() -> None:
    assert spelled(TOKENIZERS["space"], "Ein <unk> Hund") == ["<unk>"]


ALPHABET = "Hundim ,.E\u0301é½ﬁİß日🙂\u200dשž<>\n\u00a0´ΟΣ"


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=st.text(alphabet=ALPHABET))
def test_positions_agree_with_the_tokens(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids, offsets, unknown = tokenizer.encode(text), tokenizer.offsets(text), unknown_words(tokenizer, text)
    assert len(offsets) == len(ids)
    assert all(0 <= start <= end <= len(text) for start, end in offsets)
    assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
    covered = {index for word in unknown for index in range(word.start, word.end)}
    spans = [(start, end) for start, end in unknown_tokens(tokenizer, text) if text[start:end].strip()]
    assert all(covered.intersection(range(*span)) for span in spans)
    assert all(any(start < word.end and word.start < end for start, end in spans) for word in unknown)
    assert all(word.text == text[word.start : word.end] and word.text.strip() for word in unknown)
