"""Who a request belongs to: exactly one, or nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.principals import (
    ANONYMOUS,
    PrincipalsError,
    Tokens,
    TrustedHeader,
    everybody_is_anonymous,
    identify_by,
)

ANN, BOB = "ann-0123456789abcdef", "bob-0123456789abcdef"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# who may come in\n\n{ANN}\tann\n  {BOB}   Bob B. Builder  \n")
    return path


@pytest.mark.parametrize(
    ("value", "who"),
    [
        (f"Bearer {ANN}", "ann"),
        (f"bearer  {BOB} ", "Bob B. Builder"),
        (f"Bearer {ANN[:-1]}", None),
        (f"Bearer {ANN}x", None),
        (f"Bearer {ANN} {BOB}", None),
        (f"Basic {ANN}", None),
        (ANN, None),
        ("Bearer", None),
        ("Bearer é", None),
        ("", None),
    ],
)
def test_a_token_names_its_principal_and_nothing_else_does(tokens: Path, value: str, who: str | None) -> None:
    assert Tokens.from_file(tokens).identify({"authorization": value}) == who


def test_no_token_is_nobody_not_anonymous(tokens: Path) -> None:
    assert Tokens.from_file(tokens).identify({}) is None


def test_one_principal_may_have_two_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{ANN} ann\n{BOB} ann\n")
    identify = Tokens.from_file(path).identify
    assert {identify({"authorization": f"Bearer {token}"}) for token in (ANN, BOB)} == {"ann"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("secret-0123456789abcdef", "a token and a name are needed"),
        ("secret, ann", "characters that no bearer token can have"),
        ("secret ann", "shorter than 16"),
        ("secret-0123456789abcdef a\x1bnn", "printable"),
        (f"secret-0123456789abcdef {'x' * 300}", "at most 256"),
        (f"{ANN} someone", "given to ann already"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number_without_its_token(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# first\n{ANN} ann\n{line}\n")
    with pytest.raises(PrincipalsError, match=says) as caught:
        Tokens.from_file(path)
    assert f"{path}, line 3:" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert ANN not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"), [(None, "cannot be read"), (b"\xff", "UTF-8"), (b"# x\n", "names nobody")]
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PrincipalsError, match=says) as caught:
        Tokens.from_file(path)
    assert str(path) in str(caught.value)


def test_no_token_is_kept_readable(tokens: Path) -> None:
    known = Tokens.from_file(tokens)
    assert ANN not in repr(known)
    assert ANN not in repr(known._names)


@pytest.mark.parametrize(
    ("value", "who"), [("ann", "ann"), (" ann ", "ann"), ("", None), ("a, b", None), ("x" * 300, None)]
)
def test_a_trusted_header_names_the_principal(value: str, who: str | None) -> None:
    assert TrustedHeader("X-Forwarded-User").identify({"x-forwarded-user": value}) == who


def test_without_its_header_a_request_is_nobodys() -> None:
    assert TrustedHeader("X-Forwarded-User").identify({"x-user": "ann"}) is None


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "a\n"])
def test_a_header_name_must_be_one(name: str) -> None:
    with pytest.raises(PrincipalsError, match="name of a header"):
        TrustedHeader(name)


def test_the_configured_way_is_taken(tokens: Path) -> None:
    assert identify_by() is None
    by_token, by_header = identify_by(token_file=tokens), identify_by(header="X-User")
    assert by_token is not None
    assert by_token({"authorization": f"Bearer {ANN}"}) == "ann"
    assert by_header is not None
    assert by_header({"x-user": "bob"}) == "bob"
    with pytest.raises(PrincipalsError, match="not both"):
        identify_by(token_file=tokens, header="X-User")


def test_otherwise_everybody_is_anonymous() -> None:
    assert everybody_is_anonymous({"authorization": "Bearer x"}) == ANONYMOUS
