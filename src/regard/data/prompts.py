"""What is said of a picture: prompts for its label, in English and in German."""

from collections.abc import Iterable, Sequence

NUMBERS = {
    "0": ("zero", "Null"),
    "1": ("one", "Eins"),
    "2": ("two", "Zwei"),
    "3": ("three", "Drei"),
    "4": ("four", "Vier"),
    "5": ("five", "Fünf"),
    "6": ("six", "Sechs"),
    "7": ("seven", "Sieben"),
    "8": ("eight", "Acht"),
    "9": ("nine", "Neun"),
}
"""Digits in words."""

ENGLISH = ("{}", "{a} {}", "the {}", "the digit {}", "the number {}", "a handwritten {}", "a picture of {a} {}")
GERMAN = (
    "{}",
    "eine {}",
    "die {}",
    "die Ziffer {}",
    "die Zahl {}",
    "eine handgeschriebene {}",
    "ein Bild der {}",
)


def prompts_for(label: str) -> list[str]:
    """Every prompt for a label: a digit in figures and in words of both languages, another by its name."""
    english, german = NUMBERS.get(label, ("", ""))
    names = [spoken(label), english]
    found = [each.format(name, a=article(name)) for name in names if name for each in ENGLISH]
    if german:
        found += [each.format(name) for name in (label, german) for each in GERMAN]
    return list(dict.fromkeys(found))


def usual_prompt(label: str) -> str:
    """The prompt for a label in a picture for people: `a seven`."""
    english, _ = NUMBERS.get(label, (label, ""))
    name = spoken(english)
    return f"{article(name)} {name}"


def spoken(label: str) -> str:
    """A label as it is said."""
    return label.replace("_", " ").replace("-", " ")


def article(name: str) -> str:
    return "an" if name[:1].lower() in "aeio8" and name != "one" else "a"


def vocabulary_texts(labels: Iterable[str]) -> Sequence[str]:
    """All that may be said of these labels."""
    return [prompt for label in labels for prompt in prompts_for(label)]
