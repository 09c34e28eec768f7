"""Code of the examples that their READMEs do not run."""

import pytest
from glossary import PLACEHOLDERS, Glossary, reveal

GLOSSARY = Glossary({"Dichtungen": "seals", "Gleitringdichtungen": "mechanical seals", "Pumpen": "pumps"})


def test_terms_are_hidden_and_shown_again() -> None:
    hidden, meant = GLOSSARY.hide("Wir bestellen zwei Gleitringdichtungen und neun Pumpen.")
    assert hidden == "Wir bestellen zwei TERMA und neun TERMB."
    assert meant == {"TERMA": "mechanical seals", "TERMB": "pumps"}
    assert reveal("For TERMB, order TERMA.", meant) == "For pumps, order mechanical seals."


def test_a_term_inside_another_word_is_none() -> None:
    assert GLOSSARY.hide("Pumpenhaus")[1] == {}


def test_more_terms_than_placeholders_are_left_to_the_model() -> None:
    hidden, meant = GLOSSARY.hide(" ".join(["Pumpen"] * 5))
    assert len(meant) == len(PLACEHOLDERS)
    assert hidden.count("Pumpen") == 5 - len(PLACEHOLDERS)


@pytest.mark.parametrize("lost", ["We order TERMB.", "TERMA TERMA TERMB"])
def test_a_term_that_is_lost_or_comes_twice_is_noticed(lost: str) -> None:
    assert reveal(lost, {"TERMA": "seals", "TERMB": "pumps"}) is None
