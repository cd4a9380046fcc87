"""A local server that speaks OpenAI chat completions and Anthropic messages, and answers as it is told.

    model_stub.script(StubReply("NOOP"), StubReply(status=429, headers={"Retry-After": "3"}))   # one step per request
    model_stub.default = lambda request: StubReply(request.messages[-1][1].upper())             # when the script is used up

A step is a reply or a function from the request to one; ``answer_with(model)`` makes such a function of a ChatModel.
Everything that was asked is in ``model_stub.requests``. ``python -m tests.support.model_stub`` serves the simulated model.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest

from memory.model.errors import ModelError, ModelRateLimited, ModelRejected, ModelTimedOut
from memory.ports import ChatMessage, ChatModel, ChatRequest, PromptPart

Api = Literal["openai", "anthropic"]
MAX_WAIT_S = 60.0
"""No answer, however it is scripted, keeps a thread longer than this."""
TOKENS_PER_CALL = (100, 20, 60)
"""Input, output and cached input tokens that a reply reports unless told otherwise."""

STOPS: Mapping[Api, Mapping[str, str]] = {
    "openai": {"end": "stop", "length": "length", "refused": "content_filter", "other": "tool_calls"},
    "anthropic": {"end": "end_turn", "length": "max_tokens", "refused": "refusal", "other": "pause_turn"},
}


@dataclass(frozen=True)
class StubRequest:
    """What a client sent, seen alike for both APIs. Header names are lower-case."""

    api: Api
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    raw: bytes = field(repr=False)

    @property
    def model(self) -> str:
        return self.body["model"]

    @property
    def system(self) -> str:
        if self.api == "anthropic":
            return _text(self.body.get("system", ""))
        return "".join(_text(m["content"]) for m in self.body["messages"] if m["role"] in {"system", "developer"})

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Role and text, without the system prompt."""
        return [(m["role"], _text(m["content"])) for m in self.body["messages"] if m["role"] in {"user", "assistant"}]

    @property
    def schema(self) -> dict[str, Any] | None:
        if self.api == "anthropic":
            return self.body.get("output_config", {}).get("format", {}).get("schema")
        return self.body.get("response_format", {}).get("json_schema", {}).get("schema")

    @property
    def schema_name(self) -> str:
        """Anthropic's has none."""
        return self.body.get("response_format", {}).get("json_schema", {}).get("name", "reply")

    @property
    def max_tokens(self) -> int:
        return self.body.get("max_completion_tokens") or self.body["max_tokens"]

    def chat_request(self, stage: str = "stub") -> ChatRequest:
        """The same as a request of the port. The bounds of the prompt's parts are lost on the wire; the text is not."""
        return ChatRequest(
            stage=stage,
            system=(PromptPart(self.system),),
            messages=tuple(ChatMessage(role, (PromptPart(text),)) for role, text in self.messages),  # type: ignore[arg-type]
            max_output_tokens=self.max_tokens,
            timeout_s=MAX_WAIT_S,
            schema=self.schema,
            schema_name=self.schema_name,
        )


@dataclass(frozen=True)
class StubReply:
    """One answer.

    ``text`` None: a null (OpenAI) or no (Anthropic) content. ``stop``: end, length, refused, other, or the API's own word.
    ``status`` from 400: an error body with ``code`` and ``message``. ``body``: sent in place of what the API would say.
    ``fault``: ``hang`` never answers; ``drop`` closes the connection unanswered; ``cut`` closes it inside the body; ``drip``
    sends the body byte by byte without end. ``delay_s``: waits first. ``hold``: answers when this event is set.
    """

    text: str | None = "OK"
    stop: str = "end"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str = "scripted_error"
    message: str = "scripted by the test"
    body: bytes | str | None = None
    fault: Literal["hang", "drop", "cut", "drip"] | None = None
    delay_s: float = 0.0
    hold: threading.Event | None = None
    tokens: tuple[int, int, int] = TOKENS_PER_CALL

    def payload(self, request: StubRequest, number: int) -> bytes:
        if self.body is not None:
            return self.body.encode() if isinstance(self.body, str) else self.body
        if self.status >= 400:
            return json.dumps(self._error(request.api)).encode()
        made = _openai_reply if request.api == "openai" else _anthropic_reply
        return json.dumps(made(self, request, number)).encode()

    def _error(self, api: Api) -> dict[str, Any]:
        if api == "anthropic":
            return {"type": "error", "error": {"type": self.code, "message": self.message}}
        return {"error": {"type": self.code, "code": self.code, "message": self.message, "param": None}}


Step = StubReply | Callable[[StubRequest], StubReply]


class ModelStub:
    """The server: ``start``, ``stop``, and a context manager of both. On loopback; port 0 takes a free one."""

    def __init__(self, *, default: Step | None = None, port: int = 0) -> None:
        self.default: Step = default or StubReply()
        self.requests: list[StubRequest] = []
        self.failures: list[BaseException] = []
        """Errors of the stub itself, for instance of a scripted function; the fixture raises the first."""
        self._port = port
        self._steps: deque[Step] = deque()
        self._arrived = threading.Condition()
        self._stopping = threading.Event()
        self._connections: set[socket.socket] = set()
        self._numbers = itertools.count(1)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def script(self, *steps: Step) -> None:
        """Answer the next requests so, in order of arrival; then ``default`` again."""
        with self._arrived:
            self._steps.extend(steps)

    @property
    def url(self) -> str:
        assert self._server is not None, "the stub is not running"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def settings(self) -> dict[str, str]:
        """Settings that point both providers here, for ``load_settings(**…)`` (as ``AFTERTURN_…`` for a process)."""
        return {"openai_base_url": f"{self.url}/v1", "anthropic_base_url": self.url}

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> list[StubRequest]:
        """Blocks until that many have arrived (call it in a thread from async code)."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests within {timeout_s} s")
            return list(self.requests)

    def start(self) -> ModelStub:
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="model-stub", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends hanging answers and open connections too. Safe to call twice."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        self._stopping.set()
        server.shutdown()
        with self._arrived:
            open_connections = list(self._connections)
        for connection in open_connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the other side was first
        server.server_close()
        self._thread.join(10)

    def __enter__(self) -> ModelStub:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # called by the handler, in its threads

    def _take(self, request: StubRequest) -> tuple[Step, int]:
        with self._arrived:
            self.requests.append(request)
            step = self._steps.popleft() if self._steps else self.default
            self._arrived.notify_all()
            return step, next(self._numbers)

    def _wait(self, seconds: float) -> None:
        self._stopping.wait(min(seconds, MAX_WAIT_S))


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # server_close waits for the handlers: no thread outlives its test
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError) and error is not None:
            self.RequestHandlerClass.stub.failures.append(error)  # type: ignore[attr-defined]


def _handler(owner: ModelStub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        stub = owner
        protocol_version = "HTTP/1.1"
        timeout = MAX_WAIT_S
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            with owner._arrived:
                owner._connections.add(self.connection)

        def finish(self) -> None:
            with owner._arrived:
                owner._connections.discard(self.connection)
            super().finish()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            apis: dict[str, Api] = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}
            api = apis.get(self.path.partition("?")[0])
            if api is None:
                self.send_error(404)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = StubRequest(api, self.path, headers, json.loads(raw), raw)
            step, number = owner._take(request)
            reply = step if isinstance(step, StubReply) else step(request)
            if reply.hold is not None:
                reply.hold.wait(MAX_WAIT_S)
            if reply.delay_s:
                owner._wait(reply.delay_s)
            if reply.fault in {"hang", "drop"}:
                if reply.fault == "hang":
                    owner._wait(MAX_WAIT_S)
                self.close_connection = True
                return
            self._send(request, reply, number)

        def _send(self, request: StubRequest, reply: StubReply, number: int) -> None:
            payload = reply.payload(request, number)
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload) if reply.fault != "drip" else 1_000_000))
            self.send_header("x-request-id" if request.api == "openai" else "request-id", f"req_{number}")
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.fault == "cut":
                self.wfile.write(payload[: len(payload) // 2])
                self.close_connection = True
            elif reply.fault == "drip":
                for _ in range(int(MAX_WAIT_S / 0.02)):
                    if owner._stopping.is_set():
                        break
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    owner._wait(0.02)
                self.close_connection = True
            else:
                self.wfile.write(payload)

    return Handler


def answer_with(model: ChatModel) -> Callable[[StubRequest], StubReply]:
    """Answer as this model does; its errors become the statuses that mean them."""

    def answer(request: StubRequest) -> StubReply:
        try:
            reply = asyncio.run(model.complete(request.chat_request()))
        except ModelRateLimited as error:
            wait = {} if error.retry_after_s is None else {"Retry-After": f"{error.retry_after_s:g}"}
            return StubReply(status=429, code="rate_limited", headers=wait)
        except ModelTimedOut:
            return StubReply(fault="hang")
        except ModelRejected:
            return StubReply(status=400, code="invalid_request")
        except ModelError:
            return StubReply(status=500, code="server_error")
        usage = reply.usage
        return StubReply(reply.text, stop=reply.stop, tokens=(usage.input_tokens, usage.output_tokens, usage.cached_input_tokens))

    return answer


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _openai_reply(reply: StubReply, request: StubRequest, number: int) -> dict[str, Any]:
    given, made, cached = reply.tokens
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": request.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": reply.text, "refusal": None},
                "finish_reason": STOPS["openai"].get(reply.stop, reply.stop),
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": given,
            "completion_tokens": made,
            "total_tokens": given + made,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _anthropic_reply(reply: StubReply, request: StubRequest, number: int) -> dict[str, Any]:
    given, made, cached = reply.tokens
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [] if reply.text is None else [{"type": "text", "text": reply.text}],
        "stop_reason": STOPS["anthropic"].get(reply.stop, reply.stop),
        "stop_sequence": None,
        "usage": {
            # This API counts what came from the cache beside input_tokens, not in it.
            "input_tokens": given - cached,
            "output_tokens": made,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
        },
    }


@pytest.fixture
def model_stub() -> Iterator[ModelStub]:
    """A fresh stub per test; an error inside it fails the test."""
    with ModelStub() as stub:
        yield stub
    if stub.failures:
        raise stub.failures[0]


def main() -> None:
    from memory.llm.factory import build_models
    from memory.settings import load_settings

    parser = argparse.ArgumentParser(description="OpenAI and Anthropic APIs, answered by the simulated model.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--faults", default="", help="how it misbehaves, as AFTERTURN_SIMULATED_FAULTS")
    arguments = parser.parse_args()
    models = build_models(load_settings(simulated_faults=arguments.faults))
    with ModelStub(default=answer_with(models.model("simulated")), port=arguments.port) as stub:
        sys.stdout.write(stub.url + "\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
