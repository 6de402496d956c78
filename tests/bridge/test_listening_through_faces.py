"""Subscription streams through both faces of the real program, by a client that writes and reads messages itself."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from modern.listen import ACKNOWLEDGED, SUBSCRIPTION_ID_KEY, UPDATED
from tests.bridge.listeners import announcer
from tests.faults.processes import FACES, PATIENCE, Bridge, headers, request, running, tool_call, until

Json = dict[str, Any]

both_faces = pytest.mark.parametrize("face", FACES)


class Stream:
    """What came for one subscription, in order, the response included; over HTTP it ends with None."""

    def __init__(self, id: Any) -> None:
        self.id = id
        self.came: queue.Queue[Json | None] = queue.Queue()
        self.leave = threading.Event()

    def next(self) -> Json | None:
        return self.came.get(timeout=PATIENCE)

    def expect(self, method: str) -> Json:
        """The params of the next message, which is a notification of this stream."""
        message = self.next()
        assert message is not None
        assert message.get("method") == method, message
        params: Json = message["params"]
        assert params["_meta"][SUBSCRIPTION_ID_KEY] == self.id
        return params

    def ended_gracefully(self, face: str) -> None:
        """The result with the subscription's id and nothing else of its own; then what closes the stream."""
        message = self.next()
        assert message is not None
        result = message["result"]
        assert message["id"] == self.id
        assert result["resultType"] == "complete"
        assert result["_meta"][SUBSCRIPTION_ID_KEY] == self.id
        assert set(result) == {"resultType", "_meta"}
        after = self.next()
        if face == "http":
            assert after is None
        else:
            assert after is not None
            assert (after["method"], after["params"]) == ("notifications/cancelled", {"requestId": self.id})


class Listener:
    """A client of one bridge with several streams."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.streams: dict[Any, Stream] = {}
        self.answers: queue.Queue[Json] = queue.Queue()
        if bridge.face == "stdio":
            threading.Thread(target=self._sort, daemon=True).start()

    def _sort(self) -> None:
        while True:
            message: Json = json.loads(self.bridge._lines.get())
            params = message.get("params", {})
            id = message.get("id", params.get("requestId", params.get("_meta", {}).get(SUBSCRIPTION_ID_KEY)))
            if id in self.streams:
                self.streams[id].came.put(message)
            else:
                self.answers.put(message)

    def listen(self, id: Any, **wanted: Any) -> Stream:
        stream = self.streams[id] = Stream(id)
        message = request("subscriptions/listen", id, {"notifications": wanted}, {"elicitation": {"form": {}}})
        if self.bridge.face == "stdio":
            self.bridge.send(message)
        else:
            threading.Thread(target=self._read, args=(stream, message), daemon=True).start()
        return stream

    def _read(self, stream: Stream, message: Json) -> None:
        with (
            suppress(httpx.HTTPError),
            httpx.stream("POST", self.bridge.url, json=message, headers=headers(message), timeout=None) as answer,
        ):
            assert answer.headers["content-type"] == "text/event-stream", answer.read()
            for line in answer.iter_lines():
                if stream.leave.is_set():
                    return
                if line.startswith("data: "):
                    stream.came.put(json.loads(line[6:]))
        stream.came.put(None)

    def leave(self, stream: Stream) -> None:
        """Over HTTP the connection closes with the next line that comes."""
        stream.leave.set()
        if self.bridge.face == "stdio":
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": stream.id}}
            self.bridge.send(cancelled)

    def call(self, tool: str, /, **arguments: Any) -> Any:
        message = tool_call(f"call {time.monotonic()}", tool, **arguments)
        if self.bridge.face == "stdio":
            self.bridge.send(message)
            answer = self.answers.get(timeout=PATIENCE)
        else:
            answer = self.bridge.exchange(message)
        assert "result" in answer, answer
        return json.loads(answer["result"]["content"][0]["text"])


@contextmanager
def listener(face: str, folder: Path) -> Iterator[Listener]:
    with running(face, folder, "--", *announcer()) as bridge:
        yield Listener(bridge)


@both_faces
def test_several_streams_of_one_client_bring_each_its_own(face: str, tmp_path: Path) -> None:
    with listener(face, tmp_path) as client:
        tools = client.listen(7, toolsListChanged=True)
        also = client.listen("7", toolsListChanged=True, resourceSubscriptions=["watch://one", "watch://refused/x"])
        assert tools.expect(ACKNOWLEDGED)["notifications"] == {"toolsListChanged": True}
        honoured = {"toolsListChanged": True, "resourceSubscriptions": ["watch://one"]}
        assert also.expect(ACKNOWLEDGED)["notifications"] == honoured
        client.call("touch", uri="watch://one/part")
        client.call("change", kind="prompt")
        client.call("change", kind="tool")
        client.call("chat", n=1)
        client.call("report", n=1)
        assert also.expect(UPDATED)["uri"] == "watch://one/part"
        for stream in (tools, also):
            stream.expect("notifications/tools/list_changed")
            assert stream.came.empty()


@pytest.mark.parametrize(("face", "how"), [("stdio", "SIGTERM"), ("stdio", "end of input"), ("http", "SIGTERM")])
def test_streams_end_gracefully_when_the_bridge_is_told_to_end(face: str, how: str, tmp_path: Path) -> None:
    with listener(face, tmp_path) as client:
        streams = [client.listen(n, toolsListChanged=True, resourceSubscriptions=["watch://one"]) for n in (1, 2)]
        for stream in streams:
            stream.expect(ACKNOWLEDGED)
        client.bridge.end(how)
        for stream in streams:
            stream.ended_gracefully(face)


@both_faces
def test_a_server_that_dies_unnoticed_is_replaced_and_every_stream_told(face: str, tmp_path: Path) -> None:
    with listener(face, tmp_path) as client:
        streams = [client.listen(n, promptsListChanged=True, resourceSubscriptions=["watch://one"]) for n in (1, 2)]
        for stream in streams:
            stream.expect(ACKNOWLEDGED)
        [server] = [pid for pid in client.bridge.look() if b"announcer.py" in command_line(pid)]
        os.kill(server, signal.SIGKILL)
        for stream in streams:
            stream.expect("notifications/prompts/list_changed")
            assert stream.expect(UPDATED)["uri"] == "watch://one"
        assert client.call("watched")["watched"] == ["watch://one"]
        client.call("touch", uri="watch://one")
        for stream in streams:
            stream.expect(UPDATED)


@both_faces
def test_a_client_that_leaves_its_stream_ends_the_subscription_and_hears_no_more(face: str, tmp_path: Path) -> None:
    with listener(face, tmp_path) as client:
        stays = client.listen("stays", resourceSubscriptions=["watch://one"])
        leaves = client.listen("leaves", resourceSubscriptions=["watch://one", "watch://two"])
        for stream in (stays, leaves):
            stream.expect(ACKNOWLEDGED)
        client.leave(leaves)
        client.call("touch", uri="watch://one")
        until(lambda: client.call("watched")["watched"] == ["watch://one"])
        while not leaves.came.empty():  # what was on its way
            leaves.expect(UPDATED)
        client.call("touch", uri="watch://one")
        stays.expect(UPDATED)
        stays.expect(UPDATED)
        assert leaves.came.empty()


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
