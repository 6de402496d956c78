"""Every case from the field has its tests, on each transport where it can occur, and `docs/field.md` says where."""

from __future__ import annotations

import re

from tests.faults.processes import ROOT

TRANSPORTS = {"stdio", "Streamable HTTP", "HTTP+SSE"}


def rows() -> dict[int, list[str]]:
    """The cells of the table, by case."""
    lines = (ROOT / "docs" / "field.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("| ")]
    return {int(row[0]): row for row in cells if row[0].isdigit()}


def places() -> dict[int, set[str]]:
    """The files in which a case has a test."""
    found: dict[int, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for number in re.findall(r"^(?:async )?def test_case_(\d\d)_", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(int(number), set()).add(str(path.relative_to(ROOT)))
    return found


def test_every_case_has_a_test() -> None:
    assert sorted(places()) == list(range(1, 51))


def test_the_table_names_every_case_its_transports_and_its_tests() -> None:
    table = rows()
    assert list(table) == list(range(1, 51))
    for number, (_, happens, becomes, over, *seen, files) in table.items():
        assert happens, number
        assert becomes, number
        assert over.startswith("all") or set(over.split(", ")) <= TRANSPORTS, number
        assert set(re.findall(r"`(tests/[^`]+)`", files)) == places()[number], number
        assert bool(seen) is (number > 35), number
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+(, [\w.-]+/[\w.-]+#\d+)*", one) for one in seen), number


def test_what_can_occur_everywhere_is_tested_everywhere() -> None:
    """Some test of the case has every transport as a parameter."""
    whole = "\n\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "field").glob("test_*.py"))
    everywhere = re.findall(r"@everywhere\n(?:@.*\n)*(?:async )?def test_case_(\d\d)_", whole)
    assert {number for number, row in rows().items() if row[3] == "all"} <= set(map(int, everywhere))
