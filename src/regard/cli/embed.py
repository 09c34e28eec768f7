"""`regard embed`: text embeddings."""

from collections.abc import Iterator

from regard.cli.arguments import Files, JsonLines, Output, Run
from regard.cli.lines import Line, UnknownWordLog, json_line, line_batches, write_results


def embed(run: Run, files: Files = None, output: Output = None, as_json: JsonLines = False) -> None:
    """Embed each line (pooled token vectors) as tab-separated numbers; -o FILE.npy writes one array.

    Example:  regard embed runs/minilm sentences.txt -o vectors.npy
    """
    import numpy as np

    from regard.tasks.encoder.model import Encoder

    encoder = Encoder.load(run)
    if output is not None and output.suffix == ".npy":
        arrays, unknown = [], UnknownWordLog(encoder.tokenizer)
        for batch in line_batches(files or []):
            unknown.check_lines(batch)
            arrays.append(encoder.embed([line.text for line in batch]))
        with output.open("wb") as out:
            np.save(out, np.concatenate(arrays), allow_pickle=False)
        unknown.summarize()
        return

    def vectors(lines: list[Line]) -> Iterator[str]:
        for line, vector in zip(lines, encoder.embed([line.text for line in lines]), strict=True):
            numbers = [float(f"{value:.7g}") for value in vector]
            if as_json:
                yield json_line({"text": line.text, "vector": numbers})
            else:
                yield "\t".join(map(str, numbers)) + "\n"

    write_results(vectors, files or [], output, encoder.tokenizer)
