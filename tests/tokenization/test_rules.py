"""The rule-based word tokenizer, and the detokenizer as its inverse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tokenization import detokenize, split_words

EXAMPLES = {
    "Two dogs play.": "Two|dogs|play|.",
    "I don't know, it's late.": "I|do|n't|know|,|it|'s|late|.",
    "They can't, we'll see; I'm sure you've won!": "They|ca|n't|,|we|'ll|see|;|I|'m|sure|you|'ve|won|!",
    "The man’s hat isn’t here.": "The|man|’s|hat|is|n’t|here|.",
    "A welders' mask": "A|welders|'|mask",
    "A 'Grand Opening' sign": "A|'|Grand|Opening|'|sign",
    'A sign says "Welcome Bikers."': 'A|sign|says|"|Welcome|Bikers|.|"',
    "It costs $2.50, not 1,000 (or 50%)!": "It|costs|$|2.50|,|not|1,000|(|or|50|%|)|!",
    "At 12:30 Mr. Smith met Dr. Who in the U.S. Army.": "At|12:30|Mr.|Smith|met|Dr.|Who|in|the|U.S.|Army|.",
    "A blond-haired boy - happy - wears a #19 jersey.": ("A|blond-haired|boy|-|happy|-|wears|a|#|19|jersey|."),
    "Wait... what?": "Wait|...|what|?",
    "Well… yes.": "Well|…|yes|.",
    "See https://example.org/a?b=1, or mail me@example.co.uk.": (
        "See|https://example.org/a?b=1|,|or|mail|me@example.co.uk|."
    ),
    "Three people and an avrovulcan.com sign.": "Three|people|and|an|avrovulcan.com|sign|.",
    "Stone &amp; tile at a Q&amp;A.": "Stone|&amp;|tile|at|a|Q&amp;A|.",
    "Back in the '80s, hook 'em!": "Back|in|the|'80s|,|hook|'em|!",
    "Ein Schild, auf dem „Mongolian BBQ“ steht.": "Ein|Schild|,|auf|dem|„|Mongolian|BBQ|“|steht|.",
    "Eine „BBQ“-Leuchtreklame.": "Eine|„|BBQ|“|-Leuchtreklame|.",
    "Vorder- und Rückseite, z.B. bei 2,52 Euro.": "Vorder-|und|Rückseite|,|z.B.|bei|2,52|Euro|.",
    "Am 3. Mai gibt's das im T-Shirt-Laden.": "Am|3|.|Mai|gibt|'s|das|im|T-Shirt-Laden|.",
    "Sein Hemd sagt: “Ich bin der Boss.“": "Sein|Hemd|sagt|:|“|Ich|bin|der|Boss|.|“",
    "Freund/in, der/die lehnt – vielleicht.": "Freund|/|in|,|der|/|die|lehnt|–|vielleicht|.",
    "L'eau qu'il boit n'est pas froide aujourd'hui.": "L'|eau|qu'|il|boit|n'|est|pas|froide|aujourd'hui|.",
    "J’aime «Paris».": "J’|aime|«|Paris|»|.",
    "“Nice,” he said.": "“|Nice|,|”|he|said|.",
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_split_words(text: str) -> None:
    assert "|".join(split_words(text)) == EXAMPLES[text]


@pytest.mark.parametrize("text", EXAMPLES)
def test_detokenize_is_the_inverse(text: str) -> None:
    assert detokenize(split_words(text)) == text


def test_combining_marks_stay_in_words() -> None:
    assert split_words("Cafe\u0301 हिन्दी।") == ["Cafe\u0301", "हिन्दी", "।"]


def test_join_hyphens() -> None:
    assert detokenize(["blond", "-", "haired", "boy"], join_hyphens=True) == "blond-haired boy"
    assert detokenize(["boy", "-", "happy"]) == "boy - happy"


@settings(deadline=None)
@given(st.text())
def test_only_blanks_are_lost(text: str) -> None:
    assert "".join(split_words(text)) == "".join(text.split())


@settings(deadline=None)
@given(st.lists(st.text(min_size=1)))
def test_detokenize_keeps_all_characters(words: list[str]) -> None:
    assert detokenize(words).replace(" ", "") == "".join(words).replace(" ", "")


@pytest.mark.parametrize("language", ["de", "en"])
def test_captions_round_trip(multi30k, language: str) -> None:
    lines = [" ".join(line.split()) for line in multi30k("train", language)[::29]]
    exact = sum(detokenize(split_words(line)) == line for line in lines)
    assert len(lines) == 1000
    assert exact >= 990
