"""Writes business letters in German and English with placeholders for terms: orders.de and orders.en."""

import random
from pathlib import Path

from glossary import PLACEHOLDERS

NUMBERS = [
    ("zwei", "two"),
    ("drei", "three"),
    ("vier", "four"),
    ("fünf", "five"),
    ("sechs", "six"),
    ("neun", "nine"),
]
DAYS = [("Montag", "Monday"), ("Dienstag", "Tuesday"), ("Mittwoch", "Wednesday"), ("Freitag", "Friday")]
SENTENCES = [
    ("Bitte liefern Sie {many} {term} bis {day}.", "Please deliver {many} {term} by {day}."),
    ("Wir bestellen {many} {term} und {more} {other}.", "We order {many} {term} and {more} {other}."),
    ("Die Rechnung für {many} {term} ist noch offen.", "The invoice for {many} {term} is still open."),
    ("Wo bleiben unsere {many} {term}?", "Where are our {many} {term}?"),
    ("Ab {day} sind {term} wieder lieferbar.", "From {day} on, {term} will be available again."),
    (
        "Am {day} kommen {many} {term} und {more} {other} an.",
        "On {day}, {many} {term} and {more} {other} will arrive.",
    ),
    ("Der Preis für {term} steigt am {day}.", "The price of {term} rises on {day}."),
]


def main(count: int = 3000) -> None:
    generator = random.Random(1)
    with Path("orders.de").open("w", encoding="utf-8") as german, Path("orders.en").open("w") as english:
        for _ in range(count):
            sentence, (many, more), day = (
                generator.choice(SENTENCES),
                generator.sample(NUMBERS, 2),
                generator.choice(DAYS),
            )
            for side, file in enumerate((german, english)):
                words = {"many": many[side], "more": more[side], "day": day[side]}
                file.write(sentence[side].format(**words, term=PLACEHOLDERS[0], other=PLACEHOLDERS[1]) + "\n")


if __name__ == "__main__":
    main()
