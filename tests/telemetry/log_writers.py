"""Processes that write the bot's log and are killed; run by test_jsonl_kill, which looks at what they leave.

`burst DIR`: eight writers, and whoever takes the place of a killed one, write until each of the eight has had LINES reported
as written. After a third of all, midnight comes for all at once. Each writer notes what was reported in `DIR/reported`.
`crowd DIR`: four processes, 300 lines of 20 KB each.
`forks DIR`: threads that write without a pause, and children forked from among them that write one line each.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import struct
import sys
import threading
import time
from pathlib import Path

from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from tests.telemetry.log_files import DAY, NEXT_DAY, NOON, SECOND, at, record

WRITERS, LINES, KILLS, CHILDREN = 8, 2_500, 40, 40
SMALLEST, LARGEST = 200, 32 * 1024
MIDNIGHT = at(f"{NEXT_DAY}T00:00:00")
TORN = b'{"torn": '


class Time:
    """The same for all processes: ten seconds before midnight, until it is told when midnight is."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    def midnight_is_now(self) -> None:
        self._shared[:] = struct.pack("d", time.time())

    def now(self) -> int:
        (midnight,) = struct.unpack("d", self._shared[:])
        return MIDNIGHT + (int((time.time() - midnight) * SECOND) if midnight else -10 * SECOND)


def burst(folder: Path) -> None:
    clock, dice = Time(), random.Random()
    exporter = JsonlExporter(log_folders(folder), now=clock.now)
    reported = os.open(folder / "reported", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    running: dict[int, int] = {}  # process → whose lines it writes
    done: dict[int, int] = dict.fromkeys(range(WRITERS), 0)
    generation = killed = 0
    while unfinished := {slot for slot in done if done[slot] < LINES}:
        for slot in unfinished - set(running.values()):
            generation += 1
            running[_writer(exporter, clock, f"{slot}-{generation}", LINES - done[slot], reported)] = slot
        time.sleep(0.01)
        if sum(done.values()) > WRITERS * LINES // 3 and clock.now() < MIDNIGHT:
            clock.midnight_is_now()
        if killed < KILLS:
            killed += 1
            os.kill(victim := dice.choice(list(running)), signal.SIGKILL)
            _tear(folder, clock)
            os.waitpid(victim, 0)
            del running[victim]
        for process in list(running):
            if os.waitpid(process, os.WNOHANG)[0]:
                del running[process]
        done = _done(os.pread(reported, 1 << 24, 0))
    for process in running:
        os.waitpid(process, 0)
    print(json.dumps({"killed": killed}))


def _writer(exporter: JsonlExporter, clock: Time, name: str, lines: int, reported: int) -> int:
    if process := os.fork():
        return process
    dice = random.Random(name)
    try:
        for n in range(lines):
            size = int(SMALLEST * (LARGEST / SMALLEST) ** dice.random()) - 150  # as many small ones as large ones
            text = ("金曜" * size)[: size // 3] if n % 2 else "x" * size
            if exporter.export([record({"n": f"{name}-{n}", "text": text}, when=clock.now())]).name == "SUCCESS":
                os.write(reported, f"{name}-{n}\n".encode())
    finally:
        os._exit(0)


def _tear(folder: Path, clock: Time) -> None:
    """What a process leaves that is killed in the middle of a write; by chance alone it would happen too seldom."""
    day = NEXT_DAY if clock.now() >= MIDNIGHT else DAY
    opened = os.open(folder / "logs" / f"bot-{day}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(opened, TORN)
    os.close(opened)


def _done(reported: bytes) -> dict[int, int]:
    slots = [int(line.partition(b"-")[0]) for line in reported.split()]
    return {slot: slots.count(slot) for slot in range(WRITERS)}


def crowd(folder: Path) -> None:
    exporter = JsonlExporter(log_folders(folder), now=lambda: NOON)
    for by in range(4):
        if not os.fork():
            for n in range(300):
                exporter.export([record({"by": by, "n": n, "text": "x" * 20_000})])
            os._exit(0)
    for _ in range(4):
        os.wait()


def forks(folder: Path) -> None:
    exporter = JsonlExporter(log_folders(folder), now=lambda: NOON)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            exporter.export([record({"by": "parent", "text": "x" * 5_000})])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    children = []
    for n in range(CHILDREN):
        if not (child := os.fork()):
            exporter.export([record({"by": "child", "n": n})])
            os._exit(0)
        children.append(child)
    ended = [os.waitpid(child, 0)[1] for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"ended": ended}))


if __name__ == "__main__":
    {"burst": burst, "crowd": crowd, "forks": forks}[sys.argv[1]](Path(sys.argv[2]))
