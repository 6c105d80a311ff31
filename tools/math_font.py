"""The face in which formulas are set: of STIX Two Math, the glyphs that the book's formulas use.

Few systems bring a font with the tables that mathematics needs, and without one no brace stretches. STIX Two Math
(SIL Open Font License) lies in ziamath's package; a subset of it is written beside the book's style sheets.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
import string
import unicodedata
from importlib.util import find_spec
from pathlib import Path

from fontTools import subset

NAME = "book-math.css"
FACE = '@font-face {{ font-family: "Book Math"; src: url("data:font/woff2;base64,{}") format("woff2"); }}\n/* {} */\n'
MATH = re.compile(r"<math\b.*?</math>", re.S)
TAG = re.compile(r"<[^>]+>")


def source() -> Path:
    """Return the font inside the installed package."""
    found = find_spec("ziamath")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("ziamath is not installed; run `make env`")
    return Path(found.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"


def italics() -> dict[str, str]:
    """Return the slanted form of every letter: in it a browser sets a name of one letter."""
    found = {"h": "ℎ"}
    variants = {f"GREEK {n} SYMBOL" for n in ("EPSILON", "THETA", "KAPPA", "PHI", "RHO", "PI")}
    for code in range(0x1D434, 0x1D7CB):
        words = unicodedata.name(chr(code), "").split()
        if words[:2] != ["MATHEMATICAL", "ITALIC"]:
            continue
        words = words[2:]
        kind = "LATIN" if len(words[-1]) == 1 else "GREEK"
        plain = f"GREEK {words[0]} SYMBOL" if words[-1] == "SYMBOL" else f"{kind} {words[0]} LETTER {words[-1]}"
        if "SYMBOL" not in words or plain in variants:
            plain = {"GREEK EPSILON SYMBOL": "GREEK LUNATE EPSILON SYMBOL"}.get(plain, plain)
            if plain_character := named(plain):
                found[plain_character] = chr(code)
    return found


def named(name: str) -> str:
    """Return the character of a name; nothing if there is none."""
    try:
        return unicodedata.lookup(name)
    except KeyError:
        return ""


def characters(pages: list[str]) -> str:
    """Return what the formulas of pages are written with, slanted forms and plain letters and digits included."""
    used = set(string.ascii_letters + string.digits + ".,()[]+=")
    for page in pages:
        for formula in MATH.findall(page):
            used |= set(html.unescape(TAG.sub("", formula)))
    slanted = italics()
    return "".join(sorted(used | {slanted[c] for c in used if c in slanted}))


def write_font(static: Path, text: str) -> str:
    """Write a style sheet that holds the glyphs of `text`, with their larger forms; return a mark of its content.

    The font lies in the sheet itself: it is there when the page is first drawn, so that nothing moves when it
    comes, and it is found where a page is opened as a file.
    """
    path = static / NAME
    mark = hashlib.sha256(source().read_bytes() + text.encode()).hexdigest()[:8]
    if path.is_file() and path.read_text(encoding="utf-8").endswith(f"/* {mark} */\n"):
        return mark
    options = subset.Options(flavor="woff2", layout_features=["ssty", "flac", "dtls", "ccmp"], hinting=False)
    font = subset.load_font(str(source()), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=text)
    subsetter.subset(font)
    made = io.BytesIO()
    subset.save_font(font, made, options)
    path.write_text(FACE.format(base64.b64encode(made.getvalue()).decode(), mark), encoding="utf-8")
    return mark
