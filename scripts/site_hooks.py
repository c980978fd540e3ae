"""Hooks of mkdocs.yml: links of docs/ that lead out of it, to files of the repository."""

import re
from pathlib import Path
from posixpath import dirname, join, normpath

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((\.\./[^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    """Turns a link to a file outside of docs/ into one to the repository; a dead one stays, and fails the build."""

    repository = config.extra["repository"]

    def replaced(match):
        path = normpath(join("docs", dirname(page.file.src_uri), match[1]))
        if path.startswith("docs/") or path == "docs" or not (ROOT / path).exists():
            return match[0]
        return f"]({repository}/blob/main/{path}{match[2] or ''})"

    return LINK.sub(replaced, markdown)
