"""Image files: what they are, and their pixels at the size a model wants."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from regard.data.lines import CorpusError

KINDS = (".png", ".jpg", ".jpeg")
MOST_PIXELS = 1 << 28
"""Of one file: what claims more would fill the memory."""


@dataclass(frozen=True)
class Picture:
    """An image file by its header."""

    path: Path
    height: int
    width: int
    grey: bool

    @property
    def size(self) -> str:
        return f"{self.height} x {self.width}"


def pictures_in(folder: Path) -> list[Picture]:
    """The image files of a folder, in the order of their names."""
    return [
        look_at(path)
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in KINDS and path.name[0] != "."
    ]


def look_at(path: Path) -> Picture:
    """What an image file says of itself; its pixels are not read."""
    with opened(path) as image:
        return Picture(path, image.height, image.width, image.mode in ("1", "L", "LA", "I", "I;16"))


def read_picture(path: Path, height: int, width: int, channels: int) -> np.ndarray:
    """Bytes (channels, height, width), brought to that size where it has another."""
    with opened(path) as image:
        try:
            image.load()
        except (OSError, SyntaxError, ValueError) as problem:
            raise broken(path, problem) from None
        found = image.convert("L" if channels == 1 else "RGB")
        if found.size != (width, height):
            found = found.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.array(found, np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def opened(path: Path) -> Image.Image:
    try:
        image = Image.open(path, formats=("PNG", "JPEG"))
    except FileNotFoundError:
        raise CorpusError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise CorpusError(f"{path} is a folder; an image file is needed ({', '.join(KINDS)})") from None
    except PermissionError:
        raise CorpusError(f"{path} may not be read by this user; change its permissions") from None
    except UnidentifiedImageError:
        raise CorpusError(f"{path} is not an image: it is neither PNG nor JPEG") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
        raise broken(path, problem) from None
    if image.height * image.width > MOST_PIXELS:
        raise CorpusError(
            f"{path} claims {image.height:,} x {image.width:,} pixels, which is more than is read"
        )
    return image


def broken(path: Path, problem: Exception) -> CorpusError:
    return CorpusError(f"{path} is a broken image: {str(problem).lower().rstrip('.')}")
