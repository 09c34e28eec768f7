"""Model cards of exports: how another tool runs the model, and the result of the check."""

from regard.config.models import GptConfig
from regard.tasks.encoder.config import TextRecipe
from regard.tasks.export import ExportCheck, Format
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.model_card import escape
from regard.tasks.registry import spec_of
from regard.tasks.translation.config import TranslationRecipe

TITLES: dict[Format, str] = {"ctranslate2": "CTranslate2", "onnx": "ONNX", "huggingface": "Hugging Face"}

USE: dict[Format, str] = {
    "ctranslate2": """`regard translate FOLDER --engine ctranslate2` runs it. Without regard:

```python
import ctranslate2

translator = ctranslate2.Translator("FOLDER")
results = translator.translate_batch([tokens])  # from the tokenizer in the folder, without special tokens
```""",
    "onnx": """`regard translate FOLDER --engine onnx` runs it. Without regard: the input of `encoder.onnx` is
`source` (batch, length), each sentence ended by id 1 and padded with id 2. `decoder.onnx` computes one step:
its inputs are `tokens` (batch,), at first id 0, the outputs of the encoder under the same names, and caches, at
first of length 0. An output `next.NAME` is the input NAME of the next step; `scores` are the logits.""",
    "huggingface": """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
batch = tokenizer(["a sentence"], return_tensors="pt", return_token_type_ids=False)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

`regard import FOLDER --out RUN` makes a run of it again.""",
}


def translation_export_card(recipe: TranslationRecipe, to: Format, check: ExportCheck) -> str:
    """The README.md of an exported translation model."""
    languages = " to ".join(map(escape, recipe.data.direction))
    return f"""# Translation from {languages}, for {TITLES[to]}

{recipe.model}. Exported by regard.

{USE[to]}

## Checked

{check.engine} compared with the run, on {check.sentences:,} sentences:

{checked(check)}
"""


def language_model_export_card(model: object, check: ExportCheck) -> str:
    """The README.md of an exported GPT."""
    return f"""# {model}, for Hugging Face

Exported by regard.

```python
from transformers import pipeline

write = pipeline("text-generation", "FOLDER")
print(write("Once upon a time", max_new_tokens=50)[0]["generated_text"])
```

`regard import FOLDER --out RUN` makes a run of it again.

## Checked

{check.engine} compared with the run, on {check.sentences:,} texts:

{checked(check)}
"""


PIPELINES = {
    "classification": 'label = pipeline("text-classification", "FOLDER")\nprint(label("a text"))',
    "tagging": 'tag = pipeline("token-classification", "FOLDER")\nprint(tag("a text"))',
    "question-answering": 'answer = pipeline("question-answering", "FOLDER")\n'
    'print(answer(question="a question", context="a paragraph"))',
    "masked-lm": 'fill = pipeline("fill-mask", "FOLDER")\nprint(fill("a [MASK]"))',
    "encoder": 'read = pipeline("feature-extraction", "FOLDER")\nprint(read("a text"))',
    "image-classification": 'label = pipeline("image-classification", "FOLDER")\nprint(label("image.png"))',
}
"""How Hugging Face's pipelines use a model, by its task."""

GRAPHS = {
    "masked-lm": "the output is `scores` (batch, length, vocabulary)",
    "tagging": "the output is `scores` (batch, length, tags)",
    "question-answering": "the output is `scores` (batch, 2, length) of the first and last token of an answer",
    "encoder": "the output is `vectors` (batch, size)",
}
"""Outputs of `classifier.onnx`, by task."""


def encoder_export_card(recipe: TextRecipe | ImageClassificationRecipe, to: Format, check: ExportCheck) -> str:
    """The README.md of an exported model that labels or embeds texts or images."""
    task, model = recipe.task, recipe.model
    inputs = "images" if spec_of(recipe).reads == "image" else "texts"
    return f"""# {model} for {task}, for {TITLES[to]}

Exported by regard.

{pipeline_use(task) if to == "huggingface" else graph_use(recipe)}

## Checked

{check.engine} compared with the run, on {check.sentences:,} {inputs}:

{checked(check)}
"""


def pipeline_use(task: str) -> str:
    return f"""```python
from transformers import pipeline

{PIPELINES[task]}
```

`regard import FOLDER --out RUN` makes a run of it again."""


def graph_use(recipe: TextRecipe | ImageClassificationRecipe) -> str:
    output = GRAPHS.get(recipe.task, "the output is `scores` (batch, labels), in the order of `labels.json`")
    if spec_of(recipe).reads == "image":
        pixels = "`pixels` (batch, channels, height, width) from 0 to 1"
        return f"The input of `classifier.onnx` is {pixels}; {output}."
    if isinstance(recipe.model, GptConfig):
        return f"""The input of `classifier.onnx` is `ids` (batch, length), [START] text [EXTRACT], padded
with -1; {output}. The ids of [START], [DELIM] and [EXTRACT] follow those of `tokenizer.json`."""
    return f"""The inputs of `classifier.onnx` are `ids` (batch, length), [CLS] text [SEP] in the ids of
`tokenizer.json`, padded with [PAD], and `segments` (batch, length), 0 for the first text and 1 for the second;
{output}."""


def checked(check: ExportCheck) -> str:
    """The table of identical outputs and the largest difference."""
    head = "".join(f"| identical, {output} " for output in check.same)
    row = "".join(f"| {count:,} of {check.sentences:,} " for count in check.same.values())
    return f"""{head}| largest difference of {check.of} |
{"|---" * (len(check.same) + 1)}|
{row}| {check.difference:.1e} |"""
