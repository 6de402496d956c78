"""Reading the project's documents: their examples, options, links and headings. Nothing here asserts anything.

An example that a test runs has a comment on the line before its code block: ``<!-- tested: KIND -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]

_EXAMPLE = re.compile(r"^<!-- tested: (?P<kind>[a-z ]+) -->\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def examples(document: Path, kind: str) -> list[str]:
    """The code of a document's examples of this kind, in their order."""
    return [found["text"] for found in _EXAMPLE.finditer(document.read_text(encoding="utf-8")) if found["kind"] == kind]


def example(document: Path, kind: str) -> str:
    """The only example of this kind."""
    (text,) = examples(document, kind)
    return text


def marks(document: Path) -> list[str]:
    """The kinds of all examples that say that they are tested, well-formed or not."""
    return re.findall(r"tested: ([^>]*?) *-->", document.read_text(encoding="utf-8"))


def blocks(document: Path) -> list[str]:
    """All fenced code."""
    return [found["text"] for found in _BLOCK.finditer(document.read_text(encoding="utf-8"))]


def options(text: str) -> set[str]:
    """Everything that looks like a long option."""
    return set(_OPTION.findall(text))


def options_table(document: Path) -> Iterator[tuple[str, str]]:
    """Option and default of each row of the tables with the columns option, default, meaning."""
    inside = False
    for line in document.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells[:2] == ["option", "default"]:
            inside = True
        elif not cells:
            inside = False
        elif inside and not cells[0].startswith("---"):
            yield cells[0].strip("`"), cells[1].strip("`")


def links(document: Path) -> list[str]:
    """The targets of links that are no addresses."""
    prose = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    return [target for target in _LINK.findall(prose) if "://" not in target]


def anchors(document: Path) -> set[str]:
    """What can follow ``#`` in a link to the document."""
    prose = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    titles = [title.lower() for title in _HEADING.findall(prose)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}
