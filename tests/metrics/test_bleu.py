"""Scores are those of sacreBLEU, with its signature."""

import pytest
import sacrebleu

from regard.errors import RegardError
from regard.metrics import bleu_by_length, paired_bootstrap, score_translations

REFERENCES = ["The dog sleeps in the garden.", "A woman reads a book.", "Two men are running , fast."] * 4
GOOD = ["The dog sleeps in the garden.", "A woman is reading a book.", "Two men are running fast."] * 4
BAD = ["A cat.", "The woman reads the paper at home.", "Men run."] * 4


def test_scores_equal_sacrebleu() -> None:
    quality = score_translations(GOOD, REFERENCES)
    assert quality.bleu == sacrebleu.corpus_bleu(GOOD, [REFERENCES]).score
    assert quality.chrf == sacrebleu.corpus_chrf(GOOD, [REFERENCES]).score
    assert quality.ter == sacrebleu.corpus_ter(GOOD, [REFERENCES]).score
    assert "tok:13a" in quality.signature
    assert f"version:{sacrebleu.__version__}" in quality.signature


def test_tokenised_text_is_scored_as_it_is() -> None:
    quality = score_translations(GOOD, REFERENCES, tokenized=True)
    assert quality.bleu == sacrebleu.corpus_bleu(GOOD, [REFERENCES], tokenize="none", force=True).score
    assert "tok:none" in quality.signature


def test_bleu_by_length_uses_source_words() -> None:
    rows = bleu_by_length(["a b"] * 4 + ["a b c d e f g"] * 8, GOOD, REFERENCES)
    assert [(row["words"], row["sentences"]) for row in rows] == [("1-5", 4), ("6-10", 8)]


def test_significance_of_a_clear_difference_and_of_none() -> None:
    first, same, worse = paired_bootstrap(["good", "good too", "bad"], [GOOD, GOOD, BAD], REFERENCES)
    assert first.p_value is None
    assert same.p_value > 0.3
    assert worse.p_value < 0.05
    assert worse.bleu < first.bleu


def test_counts_must_agree() -> None:
    with pytest.raises(RegardError, match="there are 12 translations, but 11 references"):
        score_translations(GOOD, REFERENCES[:-1])
    with pytest.raises(RegardError, match="no references"):
        score_translations([], [])
