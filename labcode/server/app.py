"""The routes: ``/v1/completions``, ``/v1/chat/completions``, ``/v1/models``, ``/health``, ``/metrics``."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from labcode.model.executor import ModelExecutor
from labcode.server.answer import Answer
from labcode.server.backend import Backend
from labcode.server.engine import Engine, Refused
from labcode.server.limits import BodyLimit
from labcode.server.metrics import Metrics
from labcode.server.options import Options
from labcode.server.protocol import ChatBody, Common, CompletionBody, Envelope, error

#: HTTP status of a refusal by its kind; any other is the request's own fault.
STATUS = {"queue": 429, "quota": 429, "deadline": 429, "stopping": 503}

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "Malformed, or more than this server can do; the reason is in the body"},
    404: {"description": "Another model is served here"},
    413: {"description": "The body is too large"},
    429: {"description": "Refused for now; Retry-After says when to come again"},
    503: {"description": "The server is shutting down"},
    504: {"description": "The deadline has passed"},
}


class Ascii(JSONResponse):
    """A body that can always be written, whatever a client's own text that it quotes may hold."""

    def render(self, content: Any) -> bytes:
        """Return the JSON in ASCII."""
        return json.dumps(content).encode()


class BadRequest(Exception):
    """A request that can be read and not be served; with its HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def application(backend: Backend, options: Options) -> FastAPI:
    """Return the ASGI application; its engine, ``app.state.engine``, runs from start-up to shutdown."""
    metrics = Metrics()

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        executor = ModelExecutor(backend.model, [], stop=backend.stop)
        engine = Engine(options.scheduler(backend.model), executor, options.output_buffer, metrics)
        metrics.watch(engine)
        app.state.engine = engine
        running = asyncio.create_task(engine.run())
        yield
        engine.stop()
        engine.give_up()
        await running

    app = FastAPI(title="labcode", lifespan=life, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(BodyLimit, most=options.max_body, seconds=options.body_timeout)
    _errors(app)

    @app.post("/v1/completions", responses=ERRORS)
    async def completions(body: CompletionBody, request: Request) -> Response:
        prompt = body.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            prompt = prompt[0]
        if isinstance(prompt, str):
            ids = encoded("prompt", lambda: backend.encode(prompt))
        else:
            ids = prompt  # type: ignore[assignment]
            if max(ids) >= (vocab := backend.model.config.vocab):
                raise BadRequest(f"prompt: token {max(ids)} is not in the vocabulary of {vocab} tokens")
        return answer(request, body, ids, body.max_tokens)

    @app.post("/v1/chat/completions", responses=ERRORS)
    async def chat(body: ChatBody, request: Request) -> Response:
        messages = [(message.role, message.text) for message in body.messages]
        ids = encoded("messages", lambda: backend.conversation(messages))
        return answer(request, body, ids, body.max_completion_tokens or body.max_tokens)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [card(backend)]}

    @app.get("/v1/models/{name:path}", responses={404: ERRORS[404]})
    async def one_model(name: str) -> dict[str, Any]:
        check_model(name)
        return card(backend)

    @app.get("/health", responses={503: ERRORS[503]})
    async def health() -> Response:
        stopping = app.state.engine.stopping
        return Ascii({"status": "stopping" if stopping else "ok"}, 503 if stopping else 200)

    @app.get("/metrics")
    async def metrics_page() -> Response:
        return Response(metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def check_model(name: str | None) -> None:
        if name is not None and name != backend.name:
            raise BadRequest(f"model {name!r} is not served here; {backend.name!r} is", 404)

    tenants: set[str] = set()

    def tenant_of(request: Request) -> str:
        name = request.headers.get("x-tenant", "")
        if len(name) > 64 or (name not in tenants and len(tenants) >= options.max_tenants):
            raise BadRequest(f"X-Tenant: at most 64 characters, and at most {options.max_tenants} names")
        tenants.add(name)
        return name

    def answer(request: Request, body: Common, ids: list[int], asked: int | None) -> Response:
        check_model(body.model)
        if asked is not None and asked > options.max_tokens:
            raise BadRequest(f"max_tokens = {asked}: at most {options.max_tokens}")
        room = backend.model.config.max_context - len(ids)
        most = max(1, min(options.default_tokens, options.max_tokens, room)) if asked is None else asked
        deadline = header_seconds(request, options.deadline)
        tenant = tenant_of(request)
        stream = app.state.engine.submit(ids, most, deadline, tenant, body.ignore_eos)
        return Answer(stream, Envelope(stream.id, backend.name, body, len(ids)), backend, options.stall_timeout)

    return app


def encoded(what: str, encode: Any) -> list[int]:
    """Return the tokens of a text; a text that cannot be one is the client's mistake."""
    try:
        ids: list[int] = encode()
    except ValueError as problem:
        raise BadRequest(f"{what}: {problem}") from None
    return ids


def card(backend: Backend) -> dict[str, Any]:
    """Return the entry of the served model in the list of models."""
    config = backend.model.config
    extra = {"max_model_len": config.max_context, "vocab_size": config.vocab}
    return {"id": backend.name, "object": "model", "created": 0, "owned_by": "labcode"} | extra


def header_seconds(request: Request, otherwise: float | None) -> float | None:
    """Return the deadline that the header ``X-Deadline-Seconds`` sets, counted from now."""
    text = request.headers.get("x-deadline-seconds")
    if text is None:
        return otherwise
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise BadRequest(f"X-Deadline-Seconds: {text!r}: a finite number above 0 is needed")
    return seconds


def _errors(app: FastAPI) -> None:
    """Answer every error in OpenAI's shape, with a reason."""

    @app.exception_handler(BadRequest)
    async def bad(request: Request, problem: BadRequest) -> Response:
        return Ascii(error(str(problem), "invalid_request_error"), problem.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, problem: RequestValidationError) -> Response:
        parts = [f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in problem.errors()[:5]]
        return Ascii(error("; ".join(parts), "invalid_request_error"), 400)

    @app.exception_handler(HTTPException)
    async def http(request: Request, problem: HTTPException) -> Response:
        body = error(str(problem.detail), "invalid_request_error")
        return Ascii(body, problem.status_code, headers=problem.headers)

    @app.exception_handler(Refused)
    async def refused(request: Request, problem: Refused) -> Response:
        status = STATUS.get(problem.refusal.kind, 400)
        kind = "overloaded" if status != 400 else "invalid_request_error"
        headers = {} if problem.retry_after is None else {"Retry-After": str(math.ceil(problem.retry_after))}
        return Ascii(error(str(problem), kind, problem.refusal.kind), status, headers=headers)
