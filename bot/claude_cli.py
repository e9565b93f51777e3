"""One resident Claude CLI process over stream-json: the driver. `claude_stream` reads its lines, `claude_launch` its start.

What must stay true: one turn in flight; a turn's answer is found by our own uuid, never by order; the reader always
reads, also between turns; every message a person wrote is sent with `client_composed`, or the CLI would open files and
run commands that its text names; the process never outlives `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import signal
import sys
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.claude_launch import Cli, arguments, environment
from bot.claude_mcp import ToolCalls
from bot.claude_stream import Stream, uuids_of
from bot.ports import Answer, Clock, Interrupted, Launch, SessionDied, StartFailed, StreamEvent, Tool, TurnDeadline
from bot.session_lock import note_owner, take_lock

LINE_LIMIT = 64 * 2**20  # asyncio's 64 KiB is shorter than one thread section
START_SECONDS = 60
INTERRUPT_SECONDS = 10  # measured at 0.03 s; a process that takes longer does not listen
CLOSE_SECONDS = 5
STDERR_KEPT = 2_000
WHY_CHARS = 200
Line = Mapping[str, Any]


@dataclass(slots=True)
class _Turn:
    uuid: str
    command: bool
    on_event: Callable[[StreamEvent], None]
    context: contextvars.Context
    result: asyncio.Future[Line]
    stream: Stream = field(default_factory=Stream)


class CliStarter:
    """Starts processes for one workspace. `folder`: `.insomnia`; `base_url`: the model endpoint, "" for the provider's own."""

    def __init__(self, cli: Cli, *, folder: Path, base_url: str, clock: Clock, inherited: Mapping[str, str] | None = None) -> None:
        self._cli, self._folder, self._base_url, self._clock = cli, folder, base_url, clock
        self._inherited = dict(os.environ if inherited is None else inherited)

    async def start(self, launch: Launch, *, on_exit: Callable[[int | None], None], on_stray: Callable[[StreamEvent], None]) -> CliProcess:
        try:
            process = await self._spawn(launch)
        except OSError as e:
            raise StartFailed(f"the CLI could not be started ({e.strerror})") from e
        session = CliProcess(process, clock=self._clock, on_exit=on_exit, on_stray=on_stray, tools=launch.own_tools)
        await session.greet()
        return session

    async def _spawn(self, launch: Launch) -> asyncio.subprocess.Process:
        run, config = self._folder / "run", self._folder / "claude"
        home = (run / "workers" if launch.one_shot else self._folder / "sessions") / launch.key
        cache = (home if launch.one_shot else config) / "cache"
        for folder in (home, config, run / "cwd"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        prompt_file = home / "system-prompt.txt"
        prompt_file.write_text(launch.system_prompt, encoding="utf-8")
        env = environment(launch, config_dir=config, runtime_dir=run, cache_dir=cache, base_url=self._base_url, inherited=self._inherited)
        lock = await take_lock(home / "lock", clock=self._clock)
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments(self._cli.path, launch, prompt_file=prompt_file),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=launch.cwd or run / "cwd",
                env=env,
                limit=LINE_LIMIT,
                start_new_session=True,
                pass_fds=(lock,),
            )
            note_owner(lock, process.pid)
        finally:
            os.close(lock)  # the child holds it on
        return process


class CliProcess:
    """See `ClaudeSession`. The reader tasks belong to the process and end with it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        clock: Clock,
        on_exit: Callable[[int | None], None],
        on_stray: Callable[[StreamEvent], None],
        tools: Sequence[Tool] = (),
    ) -> None:
        self._process, self._clock, self._on_exit, self._on_stray = process, clock, on_exit, on_stray
        self._idle_stream = Stream()
        self._turn: _Turn | None = None
        self._controls: dict[str, asyncio.Future[Line]] = {}
        self._tool_calls = ToolCalls(tools, respond=self._respond)
        self._stderr = b""
        self._last_error: Line = {}
        self._broken: Exception | None = None
        self._closing = self._over = False
        loop = asyncio.get_running_loop()  # owned here and awaited in `close`: they live as long as the process, not as a scope
        self._tasks = [loop.create_task(self._read_lines()), loop.create_task(self._read_stderr())]

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._closing

    @property
    def pid(self) -> int:
        return self._process.pid

    async def greet(self) -> None:
        """Before the first message the CLI prints nothing; it answers a control request once it is ready."""
        try:
            async with asyncio.timeout(START_SECONDS):
                told = await self._control("initialize")
        except asyncio.CancelledError:
            self._kill()
            await self.close()
            raise
        except TimeoutError as e:
            self._kill()
            await self.close()
            raise StartFailed(f"the CLI did not answer within {START_SECONDS} s") from e
        except SessionDied as e:
            await self.close()  # and with that all that it said on stderr is read
            raise self._start_failed(f"the CLI ended at once ({e})") from e
        if told.get("subtype") == "error":
            await self.close()
            raise self._start_failed("the CLI refused to begin")

    def _start_failed(self, what: str) -> StartFailed:
        errors = self._last_error.get("errors")
        told = [str(x) for x in errors] if isinstance(errors, list) else []
        told += self._stderr.decode("utf-8", "replace").strip().splitlines()
        dead = any("No conversation found" in line for line in told)
        return StartFailed(": ".join([what, *told[:1]])[:WHY_CHARS], dead_resume=dead)

    # -- turns ---------------------------------------------------------------------------------------------------------
    async def send(self, prompt: str, *, on_event: Callable[[StreamEvent], None], seconds: float) -> Answer:
        return await self._ask(prompt, command=False, on_event=on_event, seconds=seconds)

    async def compact(self, *, on_event: Callable[[StreamEvent], None], seconds: float) -> Answer:
        return await self._ask("/compact", command=True, on_event=on_event, seconds=seconds)

    async def _ask(self, prompt: str, *, command: bool, on_event: Callable[[StreamEvent], None], seconds: float) -> Answer:
        if self._turn is not None:
            raise RuntimeError("a turn is already in flight: the CLI would merge the two")
        future: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        turn = self._turn = _Turn(str(uuid.uuid4()), command, on_event, contextvars.copy_context(), future)
        message = {"role": "user", "content": prompt}
        line = {"type": "user", "uuid": turn.uuid, "client_composed": not command, "message": message, "parent_tool_use_id": None}
        try:
            async with asyncio.timeout(seconds):
                await self._write(line)  # a process that does not read keeps us waiting here
                result = await asyncio.shield(future)
        except TimeoutError as e:
            raise TurnDeadline(seconds, killed=not await self._interrupt(turn)) from e
        except asyncio.CancelledError:
            await self._interrupt(turn)
            raise
        finally:
            self._turn = None
            self._tool_calls.cancel_all()
            if future.done() and not future.cancelled():
                future.exception()  # looked at: a death that nobody waits for any more is no warning
        return turn.stream.answer(result)

    async def interrupt(self) -> None:
        """Ends the turn under way early; whoever sent it gets its answer, which says so."""
        await self._control("interrupt")

    async def _interrupt(self, turn: _Turn) -> bool:
        """Ends the turn under way and swallows its result, or the next answer would be one behind. False: it was killed."""
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self._control("interrupt")
                result = await asyncio.shield(turn.result)
        except (TimeoutError, SessionDied):
            self._kill()
            return False
        except asyncio.CancelledError:  # once more: nobody will wait for its result
            self._kill()
            raise
        cost = turn.stream.answer(result).cost_by_model
        turn.context.run(turn.on_event, Interrupted(self._clock.now(), cost))
        return True

    # -- lines ---------------------------------------------------------------------------------------------------------
    async def _control(self, subtype: str) -> Line:
        request = uuid.uuid4().hex
        future: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._controls[request] = future
        try:
            await self._write({"type": "control_request", "request_id": request, "request": {"subtype": subtype}})
            return await future
        finally:
            del self._controls[request]

    async def _write(self, line: Line) -> None:
        try:
            await self._put(line).drain()
        except (BrokenPipeError, ConnectionResetError) as e:
            raise self._died() from e

    def _put(self, line: Line) -> asyncio.StreamWriter:
        stdin = self._process.stdin
        if stdin is None or self._process.returncode is not None or self._closing:
            raise self._died()
        stdin.write(json.dumps(line).encode() + b"\n")
        return stdin

    async def _read_lines(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        try:
            async for raw in stdout:
                if raw.startswith(b"{"):
                    self._line(json.loads(raw))
        except asyncio.CancelledError:
            self._kill()
            raise
        except Exception as e:  # noqa: BLE001 - a line that is no JSON or too long, a listener that failed: the rest cannot be trusted
            self._broken = e
            print(f"insomnia: {type(e).__name__} while reading the CLI's lines; its process is ended", file=sys.stderr)
            traceback.print_tb(e.__traceback__, limit=-3)
            self._kill()
        code = await self._process.wait()
        self._kill()  # what it left behind in its group; from now on the number may be another's
        self._over = True
        self._gone(code)

    def _line(self, line: Line) -> None:
        match line.get("type"):
            case "control_response":
                response = line.get("response")
                if isinstance(response, Mapping):
                    self._settle(self._controls.get(str(response.get("request_id"))), response)
            case "control_request":
                self._asked(line)
            case "control_cancel_request":
                self._tool_calls.cancel(str(line.get("request_id")))
            case "result":
                self._result(line)
            case _:
                self._told(line)

    def _told(self, line: Line) -> None:
        turn, now = self._turn, self._clock.now()
        if turn is None:
            for event in self._idle_stream.feed(line, now):
                self._on_stray(event)
            return
        for event in turn.stream.feed(line, now):
            turn.context.run(turn.on_event, event)

    def _result(self, line: Line) -> None:
        if line.get("is_error"):
            self._last_error = line
        turn, answered = self._turn, uuids_of(line)
        if turn is None:
            return
        anonymous = not answered and (turn.command or bool(line.get("is_error")))
        if turn.uuid in answered or anonymous:
            self._settle(turn.result, line)

    def _asked(self, line: Line) -> None:
        """A message to a tool of ours; whatever else the CLI asks is denied, and it goes on."""
        context = self._turn.context.copy() if self._turn else contextvars.copy_context()
        if not self._tool_calls.take(line, context):
            self._respond(str(line.get("request_id")), {"behavior": "deny", "message": "not allowed here"})

    def _respond(self, request: str, response: Line) -> None:
        with contextlib.suppress(SessionDied):  # the reader meets the end next
            answer = {"subtype": "success", "request_id": request, "response": response}
            self._put({"type": "control_response", "response": answer})

    @staticmethod
    def _settle(future: asyncio.Future[Line] | None, value: Line) -> None:
        if future is not None and not future.done():
            future.set_result(value)

    async def _read_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while chunk := await stderr.read(4096):
            self._stderr = (self._stderr + chunk)[-STDERR_KEPT:]

    # -- the end -------------------------------------------------------------------------------------------------------
    def _gone(self, code: int | None) -> None:
        waiting = [*self._controls.values(), *([self._turn.result] if self._turn else [])]
        for future in waiting:
            if not future.done():
                future.set_exception(self._died())
        if not self._closing:
            self._on_exit(code)

    def _died(self) -> SessionDied:
        died = SessionDied(self._process.returncode)
        died.__cause__ = self._broken
        return died

    def _kill(self) -> None:
        """The whole group: what the CLI started goes with it."""
        if not self._over:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Ends the process: end of input, then SIGTERM, then SIGKILL to its group. May be called twice."""
        self._closing = True
        await self._tool_calls.end()
        if self._process.stdin is not None:
            self._process.stdin.close()
        for end in (None, self._terminate, self._kill):
            if end is not None:
                end()
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._process.wait()
                    break
            except TimeoutError:
                continue
        _, late = await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)  # one that left the group may hold the pipes open
        for task in late:
            task.cancel()

    def _terminate(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
