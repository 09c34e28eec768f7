"""Names that were replaced by the field's own words: `python tests/support/old_names.py` lists where one is left."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEARCHED = ("src", "tests", "docs", "benchmarks", "examples", "README.md", "CONTRIBUTING.md")

NAMES = {
    # classes and functions
    "Apart|Ends|attend_apart": "Packed, varlen attention",
    "Noted": "AttentionStats",
    "may_look": "mask",
    "write_weights_into": "load_weights",
    "only_here|only_one": "exclusive_lock, file_lock",
    "keep_one_order": "enable_reproducible_mkl",
    "in_c|laid_out|dropped_of": "supported, prepack, dropout_threshold",
    "PairModel|Remembering|Remembered": "Seq2SeqModel, KnnModel, Datastore",
    "Audience|Nobody|Silence|Journal": "ProgressListener, NullListener, NullLogger, MetricsLogger",
    "House|open_house|Gate|Watch|Ticket": "ModelRegistry, open_registry, AccessMiddleware, RequestLog, Job",
    "Wish|GptWriter|LoadedWriter": "GenerationConfig, GptLanguageModel, LanguageModel",
    "Looked|LoadedTranslator|LoadedKernel|LoadedVision|LoadedPainter": "AttentionMaps, Translator, ...",
    "golds|num_golds": "targets, num_targets",
    "TransformerModel|BertModel(?=[(,)])|GptModel|NgramModel|VitModel|UnetModel|RnnModel|ConvS2SModel": "TransformerConfig, ...",
    "LoopSettings|SmoothedSettings|TextTrain|TrainSettings|LabelTrain|VisionTrain|PaintTrain": "TrainConfig, ...",
    "PairData|CurveData|LabelledData|TaggedData|QuestionData|DocumentData|PictureData": "PairDataConfig, ...",
    "PretrainingRecipe|AnsweringRecipe|VisionRecipe|PaintRecipe|LanguageRecipe": "MaskedLmRecipe, ...",
    # modules
    r"regard\.(app|jobs|exchange|evaluation|look|text|disk|attention|layers|models|native)": "the packages of today",
    r"regard\.(decoding\.(limits|writer|search|lean)|training\.(average|ahead|lesson|heads))": "constraints, generator, ...",
    r"server\.(house|gate|watch|waiting)|cli\.commands": "model_registry, access, request_log, cancellation",
    r"regard\.(bench|arithmetic)": "tasks, mkl",
    r"regard\.data\.(lines|store|stream|labelled|windows|documents|plaintext|pictures|prompts|curve|web)": "text_files, ...",
    r"regard\.viz\.(payload|choice|measures|curves|heads|page|document|painting|images)": "attention_maps, ...",
    r"regard\.server\.(application|access|batcher|messages|places|reader|writer|reading_\w+|writing_\w+)": "app, ...",
    r"regard\.interop\.(bert|gpt2|marian|vit|by_transformers|folders|tokenizer_files|onnx_readers)": "huggingface_bert, ...",
    r"regard\.tokenization\.(rules|joining|letters|merges|marked|spacy_words)": "word_rules, characters, ...",
    r"regard\.training\.(loss|objective|denoising|ema|lion|muon|precision)": "objectives, optimizers, devices, ...",
    r"regard\.tasks\.(exporting|export_check|formats|importing|engines|history|environment|shares)": "export, ...",
    # classes
    "Batcher|ServedReader|Hiding|RunningText|InFolders|Dice|MarkedTokenizer|LetterTokenizer": "BatchQueue, ...",
    "BertReader|Attentive|Reduced|TextFolder|ReductionSubject|PaintBatch|PaintBatches": "TextEmbedder, ...",
    "asked_to_stop|in_fours|looked_at|who_looks|told_texts|served_names": "stop_on_signals, accepted_hosts, ...",
    # recipe keys
    r"tokenizer\.(normal|lower|over_all)|model\.(read|spread)|reduce\.near|embed\.normal": "normalization, ...",
    r"train\.(average|decay|keep|clip|most_signal)": "averaging, ema_decay, keep_checkpoints, clip_norm, max_snr",
    r"model\.(longest|share)|data\.longest|embed\.longest": "max_length, tie_embeddings",
    r"train\.(rate|rate_by|accumulate|optimiser)": "lr, lr_by, grad_accum, optimizer",
    r"text\.(kind|min_count|joint|tokenized|over_all)": "tokenizer.kind, ...",
    r"task = \"(painting|vision|pretraining|answering|language|kernel)\"": "diffusion, image-classification, ...",
    # C files
    r"(chance|curves|fewer|learning|products|sublayers|neighbours|decoding|search)\.c": "dropout.c, gemm.c, ...",
}
"""Old names as patterns of whole words, and what they are called now."""

ALLOWED = {
    "tests/support/old_names.py",
    "benchmarks/before_and_after.py",  # runs checkouts that have the old names
    "tests/config/test_synonyms.py",  # wrong keys and the ones that they are answered with
    "tests/journeys/test_mistakes.py",
}


def findings() -> list[str]:
    """`file:line: old name (new name)` for every old name that is left."""
    listed = subprocess.run(
        ["git", "ls-files", *SEARCHED], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    pattern = re.compile("|".join(rf"(?P<n{number}>\b(?:{old})\b)" for number, old in enumerate(NAMES)))
    meanings = list(NAMES.values())
    hits = []
    for name in listed.splitlines():
        path = ROOT / name
        if name in ALLOWED or path.suffix not in (".py", ".md", ".toml", ".c", ".h", ".js", ".html", ".yml"):
            continue
        for line, text in enumerate(path.read_text("utf-8").splitlines(), start=1):
            for match in pattern.finditer(text):
                number = int(str(match.lastgroup)[1:])
                hits.append(f"{name}:{line}: {match[0]} ({meanings[number]})")
    return hits


if __name__ == "__main__":
    hits = findings()
    print("\n".join(hits) or "no old name is left")
    sys.exit(bool(hits))
