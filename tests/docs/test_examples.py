"""What the documentation shows is what happens: programs, sessions and commands are run."""

from __future__ import annotations

import ast
import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from triegs.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)

# A terminal of a known width, without colour, where `triegs` is the one under test.
SCREEN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
TERMINAL = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONIOENCODING": "utf-8",
    **SCREEN,
}


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line on which the text starts."""

    page: Path
    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Command(NamedTuple):
    """One command of a console block with the output shown below it."""

    text: str
    shown: str


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, match[2], match[3], text.count("\n", 0, match.start(3)) + 1)
        for match in FENCE.finditer(text)
    ]


def read_commands(block: Block) -> list[Command]:
    """Split at the prompts: ``$`` starts a command, ``>`` or a trailing backslash continues it."""
    commands: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:], ""))
        elif not commands:
            raise ValueError(f"{block}: a console block starts with a prompt")
        elif not commands[-1].shown and (line.startswith("> ") or commands[-1].text.endswith("\\")):
            commands[-1] = Command(f"{commands[-1].text}\n{line.removeprefix('> ')}", "")
        else:
            commands[-1] = commands[-1]._replace(shown=f"{commands[-1].shown}{line}\n")
    return commands


def matches(shown: str, printed: str) -> bool:
    """Equal line by line, where a shown line ``…`` stands for any lines."""
    parts = re.split(r"^…\n", shown.strip("\n") + "\n", flags=re.MULTILINE)
    pattern = "(?:.*\n)*".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


BLOCKS = [block for page in PAGES for block in read_blocks(page)]
CONSOLES = [
    block
    for block in BLOCKS
    if block.language == "console" and re.search(r"^\$ triegs\b", block.text, re.MULTILINE)
]
SESSIONS = [block for block in BLOCKS if block.language == "python" and ">>> " in block.text]
# `python` blocks and the commands of `console` blocks run. The others are marked as not runnable:
# `py` is a program that needs Spark or a service, `sh` commands for the reader, none a drawing.
LANGUAGES = {"python", "console", "py", "sh", "sparql", "text", ""}


def test_readme_program_prints_what_readme_shows(tmp_path: Path) -> None:
    blocks = read_blocks(ROOT / "README.md")
    first = next((i for i, block in enumerate(blocks) if block.language == "python"), None)
    assert first is not None, "README.md shows no program"
    program, shown = blocks[first : first + 2]
    assert shown.language == "text", "README.md does not show what its program prints"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.text],
        cwd=tmp_path, env=TERMINAL, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown.text


def run_in_shell(text: str) -> tuple[int, str]:
    """Exit code and output of a process of its own."""
    done = subprocess.run(
        text, shell=True, cwd=ROOT, env=TERMINAL, encoding="utf-8", timeout=120,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def run_here(words: list[str]) -> tuple[int, str]:
    """Exit code and output of the same command in this process, two seconds faster."""
    done = CliRunner(env=SCREEN).invoke(app, words)
    return done.exit_code, done.output


@pytest.mark.parametrize("block", CONSOLES, ids=str)
def test_commands_print_what_is_shown(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may fail only where its failure is shown. README's run in a shell."""
    monkeypatch.chdir(ROOT)
    for command in read_commands(block):
        if not command.text.startswith("triegs"):
            continue
        words = split_words(command.text)
        if words is None or block.page.name == "README.md":
            code, printed = run_in_shell(command.text)
        else:
            code, printed = run_here(words[1:])
        if command.shown:
            assert matches(command.shown, printed), f"{command.text} printed:\n{printed}"
        else:
            assert code == 0, f"{command.text} printed:\n{printed}"


def split_words(text: str) -> list[str] | None:
    """The words of a command; None if it needs a shell, for example for a pipe."""
    unquoted = re.sub("'[^']*'", "", text)
    needs_shell = re.search(r"[|<>&;$`*]", unquoted)
    return None if needs_shell else shlex.split(text.replace("\\\n", " "))


@pytest.mark.parametrize("page", sorted({block.page for block in SESSIONS}), ids=lambda p: p.name)
def test_sessions_run(page: Path) -> None:
    """The sessions of a page are one session, read from top to bottom."""
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    printed: list[str] = []
    for block in SESSIONS:
        if block.page == page:
            test = doctest.DocTestParser().get_doctest(
                block.text, names, page.name, str(page), block.line - 1
            )
            runner.run(test, out=printed.append, clear_globs=False)
            names.update(test.globs)
    assert not printed, "".join(printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_block_runs_or_is_marked(page: Path) -> None:
    program = next(b for b in BLOCKS if b.page == ROOT / "README.md" and b.language == "python")
    unmarked = [
        str(block)
        for block in BLOCKS
        if block.page == page
        and (
            block.language not in LANGUAGES
            or (block.language == "python" and block not in SESSIONS and block != program)
        )
    ]
    assert unmarked == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "py"], ids=str)
def test_programs_that_do_not_run_are_python(block: Block) -> None:
    ast.parse(block.text)


def test_ellipsis_line_matches_any_lines() -> None:
    assert matches("a\n…\nd\n", "a\nb\nc\nd\n")
    assert matches("a\n…\n", "a\n")
    assert not matches("a\n…\nd\n", "a\nb\n")
    assert not matches("a\n", "a\nb\n")


def test_words_of_a_command() -> None:
    assert split_words("triegs run 'a > b' \\\n  -i x") == ["triegs", "run", "a > b", "-i", "x"]
    assert split_words("triegs run 'a' > b") is None
