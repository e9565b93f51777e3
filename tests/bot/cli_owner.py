"""A bot to be killed: owns one session as the real one does, sends one prompt, waits. Run by test_claude_cli_kill.py.

`python cli_owner.py <folder> <model url> <session id> <prompt>`; prints the CLI's process id before it sends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bot.claude_cli import CliStarter
from bot.claude_launch import find_cli
from bot.clock import SystemClock
from bot.ports import Launch


async def main(folder: str, base_url: str, session_id: str, prompt: str) -> None:
    launch = Launch(
        key="main",
        session_id=session_id,
        resume=False,
        model="claude-opus-5-5",
        autocompact=100_000,
        system_prompt="You are Insomnia.",
        credential=("ANTHROPIC_API_KEY", "made-up-key"),
    )
    starter = CliStarter(find_cli(""), folder=Path(folder), base_url=base_url, clock=SystemClock())
    session = await starter.start(launch, on_exit=lambda code: None, on_stray=lambda event: None)
    print(session.pid, flush=True)
    await session.send(prompt, on_event=lambda event: None, seconds=60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
