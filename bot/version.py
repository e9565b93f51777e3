"""The version, spelled once: the distribution, `insomnia --version` and bot.json read it here."""

from __future__ import annotations

VERSION = "0.1.0"
