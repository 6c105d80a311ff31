"""Mathematics set when the book is built: LaTeX becomes MathML, which browsers draw by themselves.

latex2mathml does the reading. What it leaves to renderers of the full MathML 3 (alphabets, accents, words as operators,
limits that move, equation numbers) is put into the form that MathML Core, and so every browser, knows:
https://www.w3.org/TR/mathml-core/. A formula that cannot be set stays LaTeX, and its page loads MathJax.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from xml.etree import ElementTree as ET

from latex2mathml.converter import convert

NS = "http://www.w3.org/1998/Math/MathML"
FORMULA = re.compile(
    r'<(?P<tag>span|div)(?P<before>[^>]*) class="(?P<classes>math notranslate nohighlight)"(?P<after>[^>]*)>'
    r"(?P<inside>.*?)</(?P=tag)>",
    re.S,
)
NUMBER = re.compile(r"\\tag\{([^{}]*)\}")
WRAPPED = re.compile(r"\\(begin|end)\{(?:equation\*?|aligned|split)\}")
ALPHABETS = {"double-struck": "DOUBLE-STRUCK", "script": "SCRIPT", "bold": "BOLD"}
#: Capitals that Unicode had before it got whole alphabets of their kind.
EARLIER = {
    "script": dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True)),
    "double-struck": dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True)),
}
BRACKETS = {r"\lfloor": "⌊", r"\rfloor": "⌋", r"\lceil": "⌈", r"\rceil": "⌉"}
ARROWS = {"→", "←"}
CLOSING = {")", "]", "}", "⌋", "⌉", "|", "!"}
OPENING = {"(", "[", "{", "⌊", "⌈", "⟨"}
LIMITS = {"∑", "∏", "max", "min", "Pr", "lim", "sup", "inf"}
UNDER = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}


class NotSet(ValueError):
    """A formula that cannot be set as MathML."""


def letter(character: str, alphabet: str) -> str:
    """Return a letter or digit of one of the alphabets that MathML Core knows only as characters."""
    if character in EARLIER.get(alphabet, {}):
        return EARLIER[alphabet][character]
    kind = "DIGIT" if character.isdigit() else "CAPITAL" if character.isupper() else "SMALL"
    name = unicodedata.name(character).split()[-1]
    try:
        return unicodedata.lookup(f"MATHEMATICAL {ALPHABETS[alphabet]} {kind} {name}")
    except KeyError:
        raise NotSet(f"no {alphabet} {character}") from None


def is_word(node: ET.Element) -> bool:
    """Return whether `node` is an operator that is written as a word, as max is."""
    return node.tag == "mo" and (node.text or "").isalpha() and len(node.text or "") > 1


def set_token(node: ET.Element) -> None:
    """Give one letter, number or operator its form in MathML Core."""
    text = node.text or ""
    text = BRACKETS.get(text, text)
    alphabet = node.get("mathvariant")
    if alphabet in ALPHABETS:
        del node.attrib["mathvariant"]
        text = "".join(letter(character, alphabet) for character in text)
    elif alphabet == "italic":
        del node.attrib["mathvariant"]
    elif alphabet not in (None, "normal"):
        raise NotSet(f"alphabet {alphabet}")
    if text in BRACKETS.values() and node.tag == "mi":
        node.tag = "mo"
        node.set("stretchy", "false")
    if node.tag == "mi" and text in {"ln", "log", "exp"}:
        node.tag = "mo"
    if node.tag == "mi" and len(text) == 1 and "Α" <= text <= "Ω":
        node.set("mathvariant", "normal")  # as TeX has it
    if text == "~" and node.tag in {"mi", "mo"}:
        node.tag, text = "mo", "∼"
    if node.tag == "mtext" and text.strip():
        node.tag = "mi"  # Beside text, which counts as space, a browser takes a minus for a sign.
        if len(text) == 1:
            node.set("mathvariant", "normal")
    if node.tag == "mo" and text in {"/", "|", "."}:
        node.set("lspace", "0")
        node.set("rspace", "0")
    if "\\" in text or text == "&":
        raise NotSet(text)
    if node.get("fence") == "true" and node.get("form") is None and text not in {"|", "‖"}:
        node.set("form", "prefix" if text in OPENING else "postfix")
    node.text = text


def set_scripts(node: ET.Element) -> None:
    """Let limits stand under their operator where there is room, and accents close to their letter."""
    first = node[0]
    if node.tag in UNDER and first.tag == "mo" and (first.text or "") in LIMITS:
        node.tag = UNDER[node.tag]
        first.set("movablelimits", "true")
    if node.tag == "mover" and len(node) == 2 and node[1].tag == "mo":
        over = node[1]
        if over.text in {"¯", "―", "^", "∼"}:
            one = first.tag in {"mi", "mn"}
            wide = over.text == "―"
            node.set("accent", "true")
            over.attrib.clear()
            over.text = {"―": "‾", "^": "ˆ", "∼": "˜", "¯": "¯" if one else "‾"}.get(over.text, over.text)
            over.set("stretchy", "true" if wide or not one else "false")


def merge(row: ET.Element) -> None:
    """Make one word of upright letters, and one number of digits in groups."""
    children = list(row)
    if len(children) > 1 and all(c.tag == "mi" and c.get("mathvariant") == "normal" for c in children):
        word = ET.Element("mi")
        word.text = "".join(c.text or "" for c in children)
        row[:] = [word]
        return
    done: list[ET.Element] = []
    at = 0
    while at < len(children):
        node = children[at]
        if node.tag == "mn":
            while at + 2 < len(children) and children[at + 2].tag == "mn" and is_comma(children[at + 1]):
                node.text = f"{node.text},{children[at + 2].text}"
                at += 2
        done.append(node)
        at += 1
    row[:] = done


def is_comma(node: ET.Element) -> bool:
    """Return whether `node` is a comma in braces, which belongs to a number."""
    return node.tag == "mrow" and len(node) == 1 and node[0].text == ","


def space_words(row: ET.Element) -> None:
    """Put TeX's thin spaces beside words such as max, and none behind a sign."""
    for i, node in enumerate(row):
        sign = node.tag == "mo" and node.text in {"−", "+"}
        if sign and i and row[i - 1].tag == "mo" and row[i - 1].text not in CLOSING:
            node.set("form", "prefix")
        word = node if node.tag == "mo" else node[0] if node.tag in (*UNDER, *UNDER.values()) else node
        if not is_word(word):
            continue
        after = row[i + 1] if i + 1 < len(row) else None
        before = row[i - 1] if i else None
        close = after is None or (after.tag == "mo" and (after.text or "") in {"(", "[", "{", "|", ","})
        word.set("form", "prefix")
        word.set("lspace", "0.167em" if before is not None and before.tag in {"mi", "mn", "msub", "mfrac"} else "0")
        word.set("rspace", "0" if close else "0.167em")


def settle(node: ET.Element) -> None:
    """Bring a tree of latex2mathml into the form that MathML Core knows."""
    for child in node:
        settle(child)
    if node.tag == "mfrac" and len(node) != 2:
        raise NotSet("half a fraction")
    if node.tag in {"mi", "mn", "mo", "mtext"}:
        set_token(node)
    elif node.tag == "mpadded":
        node.tag = "mrow"
        node.attrib.clear()
        node[:] = [child for child in node if child.get("depth") is None]
    elif node.tag == "mover" and node[0].tag == "mstyle" and len(node[0]) == 1 and node[0][0].text in ARROWS:
        node[0] = node[0][0]
        node[0].set("stretchy", "true")
    elif node.tag == "mtable":
        node.attrib.clear()
        node.set("displaystyle", "true")
        for cell in node.iter("mtd"):
            cell.attrib.pop("columnalign", None)
    if node.tag in {"mrow", "mtd", "mstyle", "math"}:
        merge(node)
        space_words(node)
    elif node.tag in (*UNDER, *UNDER.values()):
        set_scripts(node)


@lru_cache(maxsize=4096)
def mathml(latex: str, display: bool) -> str:
    r"""Return a formula as MathML.

    Parameters
    ----------
    latex : str
        Without delimiters and without a number.
    display : bool
        Whether it stands by itself.

    Raises
    ------
    NotSet
        If it holds what cannot be set.
    """
    text = latex.strip()
    rows = r"\\" in text
    text = WRAPPED.sub("", text).strip()
    if rows:
        text = rf"\begin{{split}}{text}\end{{split}}"
    if r"\begin" in text.removeprefix(r"\begin{split}"):
        raise NotSet(latex)
    try:
        made = ET.fromstring(re.sub(f' xmlns="{NS}"', "", convert(text, display="block" if display else "inline")))
    except Exception as error:  # the errors of latex2mathml have no base of their own
        raise NotSet(f"{latex}: {error!r}") from error
    settle(made)
    made.attrib.clear()
    if display:
        made.set("display", "block")
    made.set("alttext", " ".join(latex.split()))
    return ET.tostring(made, encoding="unicode").replace(" />", "/>")


def set_formula(m: re.Match[str]) -> str:
    """Return the element of one formula, set if that is possible."""
    latex = html.unescape(m["inside"]).strip()
    display = m["tag"] == "div"
    if "<" in m["inside"]:
        return m[0]
    latex = latex.removeprefix(r"\(").removesuffix(r"\)").removeprefix(r"\[").removesuffix(r"\]")
    number = NUMBER.search(latex)
    try:
        set_ = mathml(NUMBER.sub("", latex), display)
    except NotSet:
        return m[0]
    more = " numbered" if number else ""
    shown = f'<span class="equation-number">({html.escape(number[1])})</span>' if number else ""
    return f'<{m["tag"]}{m["before"]} class="{m["classes"]}{more}"{m["after"]}>{set_}{shown}</{m["tag"]}>'


def with_mathml(page: str) -> str:
    """Return a page whose formulas are set."""
    return FORMULA.sub(set_formula, page)
