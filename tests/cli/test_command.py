"""The installed command in a process of its own: start, pipes, signals, encodings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tests.forks import Command, start_command

EVENTS = Path(__file__).parents[2] / "docs" / "examples" / "replies.csv"
QUERY = "SELECT ?a ?b { ?a <http://example.org/knows> ?b }"


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """What is compiled here, with a message, is not compiled in the processes of the tests."""
    from triegs import Engine

    Engine().close()


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*start_command(), *arguments],
        capture_output=True, encoding="utf-8", check=False, timeout=60, **options,
    )  # fmt: skip


def test_installed_command() -> None:
    command = Path(sys.executable).parent / "triegs"
    if not command.exists():
        pytest.skip("the package is not installed")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"triegs {version('triegs')}\n"


def test_command_as_a_module() -> None:
    command = [sys.executable, "-m", "triegs", "explain"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: python -m triegs explain" in done.stderr


def list_loaded(*arguments: str) -> set[str]:
    """The modules of a process at the end of a command."""
    program = (
        f"import sys\nfrom triegs.cli import main\nsys.argv = {['triegs', *arguments]}\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    return set(done.stderr.split())


def test_version_loads_neither_parser_nor_compiler() -> None:
    unwanted = {"rdflib", "triegs.sparql", "triegs.compiler", "triegs.testing.reference"}
    assert list_loaded("--version").isdisjoint(unwanted)


def test_commands_do_without_pandas() -> None:
    """Arrow is used here, which would import it."""
    loaded = list_loaded("generate", "path3", "-n", "5")
    assert "pyarrow" in loaded
    assert "pandas" not in loaded


def test_help_fits_a_terminal() -> None:
    for arguments in (["--help"], ["explain", "--help"], ["demo", "-h"], ["warm", "-h"]):
        done = run(*arguments)
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= 80
        assert "completion" not in done.stdout


def test_results_and_messages_go_to_different_streams() -> None:
    done = run("explain", "--text", QUERY)
    assert (done.returncode, done.stderr) == (0, "")
    done = run("explain", "--text", "SELECT")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_query_is_given_as_text_or_as_a_file(tmp_path: Path) -> None:
    plan = run("explain", "--text", QUERY).stdout
    assert run("explain", QUERY).stdout == plan
    file = tmp_path / "one {query}.rq"  # a file wins, whatever its name
    file.write_text(QUERY)
    assert run("explain", str(file)).stdout == plan
    done = run("explain", "SELECT ?x { ?x :p ?y }")
    assert (done.returncode, done.stdout) == (1, "")
    assert "query, line 1, column 16" in done.stderr
    done = run("explain", "absent.rq")
    assert done.returncode == 2
    assert "give a query file or text" in " ".join(done.stderr.split())


def test_standard_input() -> None:
    assert "full-acyclic" in run("explain", "-", input=QUERY).stdout


def test_warm_prints_the_cache_and_returns_at_once() -> None:
    done = run("warm")
    assert (done.returncode, done.stderr) == (0, "")
    assert "compile" in done.stdout


def test_unknown_command() -> None:
    assert run("nonsense").returncode == 2


def test_output_without_unicode() -> None:
    done = run("explain", "--text", QUERY, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe as a shell does")
@pytest.mark.parametrize(
    "arguments", [["demo", "--example"], ["explain", "--text", QUERY], ["--version"]]
)
def test_closed_pipe_is_quiet(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with Command(*arguments, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        _, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", QUERY, "--input", str(EVENTS), "--format", "csv"],
        ["explain", "--text", QUERY],
        ["generate", "--list"],
        ["--version"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_room_for_results_is_a_failure(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*start_command(), *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    said = "error: cannot write the results: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_interrupt_is_quiet() -> None:
    with Command(
        "explain", "-",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        # The command is up once it has read a part of what it waits for.
        process.stdin.write(b" " * (1 << 20))
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (130, b"")
