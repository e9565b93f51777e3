"""What holds for the whole project: what is shipped, what is written down, who imports whom."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bot.cli.parser import build_parser
from bot.config import Settings
from bot.config_schema import File, Route
from bot.version import VERSION

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHIPPED = ("bot", "telemetry", "memory", "dashboards")
MOST_LINES = 400
# Written so that this file does not name what it looks for.
NOT_OURS = re.compile(
    r"(^|[^A-Za-z0-9_.])/(wor[k]|far[m]|tm[p]/venv)\b|pyp[i]\.org|pythonhoste[d]\.org|registry\.npmj[s]|de[b]\.debian\.org"
)


def project_files(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_four_packages_are_shipped_and_nothing_else() -> None:
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]

    assert patterns == [pattern for package in SHIPPED for pattern in (package, f"{package}.*")]


@pytest.mark.parametrize("package", SHIPPED)
def test_every_folder_of_a_package_is_a_package_and_typed(package: str) -> None:
    folders = {path.parent for path in project_files(f"{package}/*.py")}

    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []
    assert (ROOT / package / "py.typed").is_file()


def test_tests_are_no_package_or_they_would_shadow_ours() -> None:
    assert project_files("tests/**/__init__.py", "tests/__init__.py") == []


def test_every_dependency_has_a_lower_bound_and_a_major_cap() -> None:
    dependencies = PROJECT["project"]["dependencies"]

    assert [d for d in dependencies if not re.fullmatch(r"[\w.-]+>=\d+(\.\d+)+,<\d+", d)] == []


def test_the_cli_is_pinned_because_its_version_moves_with_the_wheel() -> None:
    assert PROJECT["project"]["optional-dependencies"]["claude"] == ["claude-agent-sdk==0.2.189"]


def test_every_dependency_has_its_decision_written_down() -> None:
    decisions = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "decisions").glob("*.md"))
    names = [re.split(r"[>=]", d)[0] for d in PROJECT["project"]["dependencies"]]

    assert [name for name in names if name not in decisions] == []


def test_the_installed_version_is_the_one_in_the_source() -> None:
    try:
        installed = importlib.metadata.version("insomnia-bot")
    except importlib.metadata.PackageNotFoundError:
        installed = VERSION  # run from the source alone

    assert installed == VERSION
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_file_names_a_path_of_a_machine_or_a_registry() -> None:
    found = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", "ignore")
        found += [f"{path.relative_to(ROOT)}: {line}" for line in text.splitlines() if NOT_OURS.search(line)]

    assert found == []


def test_no_file_has_outgrown_its_room() -> None:
    long = {str(p.relative_to(ROOT)): n for p in project_files("*.py") if (n := len(p.read_text("utf-8").splitlines())) > MOST_LINES}

    assert long == {}


def test_imports_flow_one_way() -> None:
    """In a process of its own: the checker keeps state, and reads its settings from where it runs."""
    checker = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    ran = subprocess.run([sys.executable, "-c", checker], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout


def test_readme_names_every_command() -> None:
    (commands,) = (action.choices for action in build_parser()._actions if isinstance(action.choices, dict))

    assert [name for name in commands if f"`insomnia {name}" not in README] == []


def settings_block() -> dict[str, Any]:
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    return tomllib.loads(block)


def test_the_settings_shown_in_readme_are_the_defaults(tmp_path: Path) -> None:
    shown, defaults = Settings.for_demo(tmp_path, settings_block()), Settings.for_demo(tmp_path)

    assert shown.routes == defaults.routes
    assert shown.accounts == defaults.accounts
    for key in ("language", "timezone", "slack", "claude", "telemetry"):
        assert getattr(shown, key) == getattr(defaults, key)


def test_readme_shows_every_setting() -> None:
    shown = settings_block()
    tables: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {"": (File, shown), "routes.main": (Route, shown["routes"]["main"])}
    for name, field in File.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            tables[name] = (field.annotation, shown[name])

    missing = [f"{table}.{key}".strip(".") for table, (model, there) in tables.items() for key in model.model_fields if key not in there]

    assert missing == []
