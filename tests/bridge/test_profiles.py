"""Sessions by principal and by what a client can do; asks that a client cannot take; forms that it could not read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bridge.harness import EVERYTHING, Client, Journal, bridged, named, refused, text, value

pytestmark = pytest.mark.anyio


# -- who shares a session ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, {}),
        ({"elicitation": {}}, {"elicitation": {"form": {}}}),
        ({"elicitation": {"form": {}}}, {"elicitation": {"form": {}}}),
        ({"elicitation": {"url": {}}}, {"elicitation": {"url": {}}}),
        ({"sampling": {}}, {"sampling": {}}),
        ({"sampling": {"tools": {}}}, {"sampling": {"tools": {}}}),
        ({"roots": {}}, {"roots": {"listChanged": True}}),
        ({"experimental": {"x": {}}, "extensions": {"a/b": {}}}, {}),
    ],
)
async def test_the_server_learns_at_initialize_what_its_client_can_do(declared: Any, said: Any) -> None:
    async with bridged() as bridge:
        initialize = value(await Client(bridge, capabilities=declared).call("whoami"))
    assert initialize["capabilities"] == said


async def test_clients_that_can_do_the_same_share_a_process_and_others_do_not(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        for capabilities in ({"elicitation": {}}, {"elicitation": {"form": {}}}, {"elicitation": {}, "x": {"n": 1}}):
            await Client(bridge, capabilities=capabilities).call("echo", text="x")
        assert len(journal.pids()) == 1
        await Client(bridge, capabilities={"sampling": {}}).call("echo", text="x")
        assert len(journal.pids()) == 2


async def test_capabilities_that_make_no_difference_start_no_process(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        for number in range(20):
            capabilities = {"elicitation": {}, "experimental": {f"x{number}": {}}, f"unknown{number}": {}}
            await Client(bridge, capabilities=capabilities).call("echo", text="x")
        assert len(journal.pids()) == 1


async def test_principals_never_share_a_session(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        ada, bob = Client(bridge, "ada"), Client(bridge, "bob")
        await ada.call("echo", text="ada was here")
        await bob.call("add", a=1, b=2)
        heard_by = {"ada": await ada.heard(), "bob": await bob.heard()}
        names = {who: [entry.get("name") for entry in heard] for who, heard in heard_by.items()}
        assert "add" not in names["ada"]
        assert "echo" not in names["bob"]
        assert len(journal.pids()) == 2


async def test_with_a_shared_session_they_do(journal: Journal) -> None:
    async with bridged(env=journal.env, shared_session=True) as bridge:
        await Client(bridge, "ada").call("echo", text="x")
        assert "echo" in [entry.get("name") for entry in await Client(bridge, "bob").heard()]
        assert len(journal.pids()) == 1


async def test_a_state_is_its_principals_even_on_a_shared_session() -> None:
    async with bridged(shared_session=True) as bridge:
        ada, bob = Client(bridge, "ada"), Client(bridge, "bob")
        asked = await ada.call("ask_once")
        error = await refused(bob.retry("ask_once", asked["requestState"], {"elicit-1": named("Bob")}))
        assert error.data == {"reason": "invalid_request_state"}
        done = await ada.retry("ask_once", asked["requestState"], {"elicit-1": named("Ada")})
        assert value(done) == named("Ada")


# -- what a client did not declare ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])
async def test_an_ask_that_was_not_declared_is_refused_and_the_tool_may_go_on(method: str) -> None:
    async with bridged(silence=2) as bridge:
        result = await Client(bridge, capabilities={}).call("catches_refusal", method=method)
    assert result["resultType"] == "complete"
    assert value(result)["refused"]["code"] == -32601


@pytest.mark.parametrize(
    ("tool", "capabilities", "required"),
    [
        ("ask_once", {}, {"elicitation": {"form": {}}}),
        ("ask_once", {"sampling": {}, "roots": {}}, {"elicitation": {"form": {}}}),
        ("ask_once", {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
        ("ask_url", {}, {"elicitation": {"url": {}}}),
        ("ask_url", {"elicitation": {}}, {"elicitation": {"url": {}}}),
        ("ask_sampling", {"elicitation": {}}, {"sampling": {}}),
        ("ask_roots", {"elicitation": {}}, {"roots": {}}),
    ],
)
async def test_if_the_call_then_fails_the_client_learns_what_was_missing(
    tool: str, capabilities: dict[str, Any], required: dict[str, Any]
) -> None:
    async with bridged(silence=2) as bridge:
        error = await refused(Client(bridge, capabilities=capabilities).call(tool))
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": required}
    assert error.status == 400


@pytest.mark.parametrize(
    ("method", "params", "required"),
    [
        ("prompts/get", {"name": "introduction"}, {"elicitation": {"form": {}}}),
        ("resources/read", {"uri": "asker://question"}, {"elicitation": {"form": {}}}),
    ],
)
async def test_the_same_for_prompts_and_resources(method: str, params: Any, required: Any) -> None:
    async with bridged() as bridge:
        error = await refused(Client(bridge, capabilities={}).send(method, params))
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": required}


async def test_a_mode_that_was_not_declared_is_invalid_params_for_the_server() -> None:
    async with bridged() as bridge:
        client = Client(bridge, capabilities={"elicitation": {"url": {}}})
        result = await client.call("catches_refusal", method="elicitation/create")
    assert value(result)["refused"]["code"] == -32602


async def test_elicitation_without_a_mode_means_form() -> None:
    async with bridged() as bridge:
        client = Client(bridge, capabilities={"elicitation": {}})
        asked = await client.call("ask_once")
        done = await client.retry("ask_once", asked["requestState"], {"elicit-1": named("Ada")})
    assert value(done) == named("Ada")


async def test_a_url_is_shown_without_its_elicitation_id() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_url")
        [request] = asked["inputRequests"].values()
        params = {"mode": "url", "message": "Consent?", "url": "https://example.com/consent"}
        assert request == {"method": "elicitation/create", "params": params}
        done = await client.retry("ask_url", asked["requestState"], {"elicit-1": {"action": "accept"}})
    assert value(done) == {"action": "accept"}


async def test_a_client_that_can_ask_nothing_is_never_asked(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge, capabilities={})
        for tool in ("ask_once", "ask_twice", "ask_both", "ask_sampling", "ask_url"):
            assert (await refused(client.call(tool))).code == -32021
        assert all("error" in answer for answer in journal.answers())
        assert len(journal.pids()) == 1


# -- forms ------------------------------------------------------------------------------------------------------------

PRIMITIVE = {"string", "number", "integer", "boolean"}


@pytest.mark.parametrize(
    ("kind", "filled", "received"),
    [
        ("nullable", {"name": "Ada"}, {"name": "Ada", "nick": None}),
        ("nullable", {"name": "Ada", "nick": "A"}, {"name": "Ada", "nick": "A"}),
        ("strings", {"tags": "one\ntwo"}, {"tags": ["one", "two"]}),
        ("strings", {"tags": "only"}, {"tags": ["only"]}),
        ("ref", {"colour": "green"}, {"colour": "green"}),
        (
            "uuid",
            {"id": "7d444840-9dc0-11d1-b245-5ffdce74fad2"},
            {"id": "7d444840-9dc0-11d1-b245-5ffdce74fad2"},
        ),
    ],
)
async def test_forms_of_old_servers_are_shown_in_what_clients_read(kind: str, filled: Any, received: Any) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("optional_form", kind=kind)
        schema = asked["inputRequests"]["elicit-1"]["params"]["requestedSchema"]
        assert schema["type"] == "object"
        assert set(schema) <= {"type", "properties", "required", "$schema", "title", "description"}
        assert all(field["type"] in PRIMITIVE for field in schema["properties"].values())
        assert not any(field.get("format") == "uuid" for field in schema["properties"].values())
        answer = {"action": "accept", "content": filled}
        done = await client.retry("optional_form", asked["requestState"], {"elicit-1": answer}, kind=kind)
    assert value(done) == {"action": "accept", "content": received}


async def test_an_answer_is_checked_against_the_original_form() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("optional_form", kind="ref")
        answer = {"action": "accept", "content": {"colour": "purple"}}
        again = await client.retry("optional_form", asked["requestState"], {"elicit-1": answer}, kind="ref")
        assert list(again["inputRequests"]) == ["elicit-2"]


async def test_a_form_that_no_client_could_read_is_refused_to_the_server_alone(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        result = await Client(bridge).call("impossible_form")
        assert result["isError"] is True
        assert text(result).startswith("Refused")
        assert journal.answers()[0]["error"]["code"] == -32602


async def test_what_is_declared_later_counts_for_later_calls() -> None:
    async with bridged() as bridge:
        assert (await refused(Client(bridge, capabilities={}).call("ask_once"))).code == -32021
        assert (await Client(bridge, capabilities=EVERYTHING).call("ask_once"))["resultType"] == "input_required"
