"""Prompts for labels, and batches of images with prompts."""

import numpy as np
import torch

from regard.data.batch_order import Cursor
from regard.data.images import IdxImages
from regard.data.prompted_images import PromptedImageBatches, prompts_for, vocabulary_texts


def test_digits_have_prompts_in_two_languages() -> None:
    seven = prompts_for("7")
    assert {"7", "seven", "a seven", "the digit seven", "eine Sieben", "die Ziffer 7", "a 7"} <= set(seven)
    assert "an eight" in prompts_for("8")
    assert "a one" in prompts_for("1")
    assert len(seven) == len(set(seven))
    others = {prompt for label in "012345689" for prompt in prompts_for(label)}
    assert not others & set(seven)


def test_other_labels_are_called_by_their_names() -> None:
    assert prompts_for("ankle_boot")[:3] == ["ankle boot", "an ankle boot", "the ankle boot"]
    assert len(vocabulary_texts(["shirt", "coat"])) == 2 * len(prompts_for("shirt"))


def batches(tmp_path, **changed) -> PromptedImageBatches:
    pixels = np.arange(50 * 16, dtype=np.int64).astype(np.uint8).reshape(50, 4, 4)
    labels = [str(number % 2) for number in range(50)]
    images = IdxImages(tmp_path, pixels, labels)
    prompts = {"0": [[4, 1], [5, 6, 1]], "1": [[7, 1]]}
    return PromptedImageBatches(images, labels, prompts, [1], 2, **{"count": 8, "pool": 20, **changed})


def test_a_picture_comes_with_a_prompt_of_its_label(tmp_path) -> None:
    made = batches(tmp_path)
    seen = []
    for batch in made.once():
        for member, picture, ids in zip(batch.sentences, batch.images, batch.prompts.tolist(), strict=True):
            seen.append(member)
            assert ids[0] in ((4, 5) if member % 2 == 0 else (7,))
            wanted = torch.from_numpy(made.images.load([member])[0]).float() / 127.5 - 1
            assert torch.allclose(picture, wanted)
        assert batch.num_targets == batch.rows
        assert batch.tokens == 16 * batch.rows
    assert sorted(seen) == list(range(50))


def test_of_some_pictures_nothing_is_said(tmp_path) -> None:
    silent = sum(
        int((batch.prompts[:, 0] == 1).sum()) for batch in batches(tmp_path, prompt_dropout=0.5).once()
    )
    assert 10 < silent < 40
    assert all((batch.prompts[:, 0] != 1).all() for batch in batches(tmp_path).once())


def test_batches_go_on_from_any_cursor_and_are_shared_out(tmp_path) -> None:
    made = batches(tmp_path, prompt_dropout=0.3)
    stream = made.stream()
    first = [next(stream) for _ in range(12)]
    again = made.stream(first[4][1])
    for batch, cursor in first[5:]:
        other, after = next(again)
        assert torch.equal(batch.prompts, other.prompts)
        assert batch.sentences == other.sentences
        assert cursor == after
    assert first[-1][1].epoch == 1
    halves = [
        next(batches(tmp_path, prompt_dropout=0.3, shard=(rank, 2)).stream(Cursor()))[0] for rank in (0, 1)
    ]
    whole = first[0][0]
    assert sorted(halves[0].sentences + halves[1].sentences) == sorted(whole.sentences)
    assert halves[0].num_targets == whole.num_targets
    assert torch.equal(halves[0].images, whole.images[::2])
