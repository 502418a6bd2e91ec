"""Configuration of the site that `make docs` builds from the pages of this folder."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT / "src"))

project = "triegs"
author = "the triegs authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["examples"]

html_theme = "furo"
html_title = "triegs"
html_show_sphinx = False
html_copy_source = False

myst_heading_anchors = 3  # the same anchors as on a forge
myst_links_external_new_tab = False

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
default_role = "py:obj"  # `Engine.apply` in a docstring links if the name is public
python_use_unqualified_type_names = True

# The console lexer cannot read a query that spans several prompts.
suppress_warnings = ["misc.highlighting_failure"]

LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()\s#:]+)(#[^()\s]*)?\)")


def read_page(app: Any, page: str, source: list[str]) -> None:
    """Put README.md on the first page, and fit the links of every page to the site."""
    folder = (DOCS / page).parent
    if page == "index":
        app.env.note_dependency(str(ROOT / "README.md"))
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        source[0] = fit_links(readme, ROOT, folder) + source[0]
    else:
        source[0] = fit_links(source[0], folder, folder)


def fit_links(text: str, base: Path, folder: Path) -> str:
    """Rewrite links that are relative to `base` for a page in `folder`.

    A link to a folder goes to its index. A link to a file outside the site becomes plain text.

    >>> fit_links("[a](docs/run.md#queries) [b](docs/decisions) [c](bench/README.md)", ROOT, DOCS)
    '[a](run.md#queries) [b](decisions/index.md) c'
    """

    def fit(link: re.Match[str]) -> str:
        target = (base / link[2]).resolve()
        if target.is_dir():
            target /= "index.md"
        if not (target.exists() and target.is_relative_to(DOCS)):
            return link[1] if (base / link[2]).exists() else link[0]
        path = Path(os.path.relpath(target, folder)).as_posix()
        return f"[{link[1]}]({path}{link[3] or ''})"

    return LINK.sub(fit, text)


def setup(app: Any) -> None:
    app.connect("source-read", read_page)
