"""No file of the repository reveals where or by whom it was made."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PERSONAL_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|tmp|mnt|opt)/\w|[A-Z]:\\Users\\")
PRIVATE_HOST = re.compile(r"://[\w.-]+\.(?:internal|local|lan|corp|intranet)\b", re.IGNORECASE)


def list_tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_no_personal_path_or_private_host() -> None:
    leaks = []
    for path in list_tracked_files():
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if str(ROOT) in line or PERSONAL_PATH.search(line) or PRIVATE_HOST.search(line):
                leaks.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert leaks == []
