"""The model card of an export: what it is, how another tool uses it, and what its check found."""

from regard.config.models import GptConfig
from regard.tasks.export_check import Check
from regard.tasks.formats import Format
from regard.tasks.model_card import harmless
from regard.tasks.translation.config import TranslationRecipe

TITLES: dict[Format, str] = {"ctranslate2": "CTranslate2", "onnx": "ONNX", "huggingface": "Hugging Face"}

USE: dict[Format, str] = {
    "ctranslate2": """`regard translate FOLDER --engine ctranslate2` runs it. Without regard:

```python
import ctranslate2

translator = ctranslate2.Translator("FOLDER")
found = translator.translate_batch([tokens])  # of the tokenizer in the folder, without special symbols
```""",
    "onnx": """`regard translate FOLDER --engine onnx` runs it. Without regard: `encoder.onnx` reads `source`
(batch, length), each sentence ended by id 1 and padded with id 2. `decoder.onnx` takes a step: `tokens`
(batch,), at first id 0, what the encoder put out, under the same names, and caches, which begin with length 0.
What it puts out as `next.` and a name goes in under that name at the next step; `scores` are its result.""",
    "huggingface": """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
batch = tokenizer(["a sentence"], return_tensors="pt", return_token_type_ids=False)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

`regard import FOLDER --out RUN` makes a run of it again.""",
}


def export_card(recipe: TranslationRecipe, to: Format, check: Check) -> str:
    """The README.md of an export."""
    languages = f"{harmless(recipe.data.source_language)} to {harmless(recipe.data.target_language)}"
    return f"""# Translation from {languages}, for {TITLES[to]}

{recipe.model}. Exported by regard.

{USE[to]}

## Checked

{check.engine} beside the run it was made of, on {check.sentences:,} sentences:

{checked(check)}
"""


def writer_card(model: object, check: Check) -> str:
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

{check.engine} beside the run it was made of, on {check.sentences:,} texts:

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
    "masked-lm": "and puts out `scores` (batch, length, vocabulary)",
    "tagging": "and puts out `scores` (batch, length, tags)",
    "question-answering": "and puts out `scores` (batch, 2, length), of where an answer begins and ends",
    "encoder": "and puts out `vectors` (batch, size)",
}


def reader_card(task: str, model: object, to: Format, check: Check) -> str:
    """The README.md of an exported model that reads texts or images."""
    things = "images" if task == "image-classification" else "texts"
    return f"""# {model} for {task}, for {TITLES[to]}

Exported by regard.

{pipeline_use(task) if to == "huggingface" else graph_use(task, model)}

## Checked

{check.engine} beside the run it was made of, on {check.sentences:,} {things}:

{checked(check)}
"""


def pipeline_use(task: str) -> str:
    return f"""```python
from transformers import pipeline

{PIPELINES[task]}
```

`regard import FOLDER --out RUN` makes a run of it again."""


def graph_use(task: str, model: object) -> str:
    puts_out = GRAPHS.get(task, "and puts out `scores` (batch, labels), in the order of `labels.json`")
    if task == "image-classification":
        return f"`classifier.onnx` reads `pixels` (batch, channels, height, width) from 0 to 1, {puts_out}."
    if isinstance(model, GptConfig):
        return f"""`classifier.onnx` reads `ids` (batch, length), [START] text [EXTRACT], padded
with -1, {puts_out}. The ids of [START], [DELIM] and [EXTRACT] follow those of `tokenizer.json`."""
    return f"""`classifier.onnx` reads `ids` (batch, length), [CLS] text [SEP] as `tokenizer.json` numbers them,
padded with [PAD], and `segments` (batch, length), 0 for a first text and 1 for a second, {puts_out}."""


def checked(check: Check) -> str:
    """The table of what was the same."""
    head = "".join(f"| {how}, the same " for how in check.same)
    row = "".join(f"| {count:,} of {check.sentences:,} " for count in check.same.values())
    return f"""{head}| largest difference of {check.of} |
{"|---" * (len(check.same) + 1)}|
{row}| {check.difference:.1e} |"""
