"""MkDocs hook: the site shows the files that its pages link to, so that links to source lines work in it.

In the repository a note links to `../numba_gemm/tile.py#L40`. On the site there is a page for each such file, with
numbered lines, and the link goes there. Markdown files from outside of `notes/` are shown as pages, with their own
links treated likewise.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
#: Where the pages of source files are on the site.
FOLDER = "source"
LANGUAGES = {".py": "python", ".cu": "cuda", ".json": "json", ".yml": "yaml", ".toml": "toml"}

_LINK = re.compile(r"\[(?P<label>[^\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]+)?(?P<title> \"[^\"]*\")?\)")
_LINE = re.compile(r"^#L(\d+)$")
_LINE_ID = re.compile(r'id="(__codelineno-[\d-]+)"')
_MARK = re.compile(r"<!-- [^>]*: generated -->|<!-- end -->")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the repository that a page links to, directly or from such a page."""
    waiting = [file for file in files if file.is_documentation_page()]
    while waiting:
        page = waiting.pop()
        for source in sorted(_linked_sources(page.content_string, _place(page))):
            if files.get_file_from_path(_page_of(source)) is None:
                added = File.generated(config, _page_of(source), content=_content(source))
                files.append(added)
                if source.suffix == ".md":
                    waiting.append(added)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links at the pages of source files, and take the marks of generated regions out."""
    folder = _place(page.file).parent

    def pointed(match: re.Match[str]) -> str:
        if (ROOT / folder / match["path"]).is_dir():
            return match["label"]  # the site shows no folders
        source, note = _source(match["path"], folder), _note(match["path"], folder)
        if source is None and note is None:
            return match[0]
        target = posixpath.relpath(note or _page_of(source), posixpath.dirname(page.file.src_uri) or ".")
        anchor = _LINE.sub(r"#__codelineno-0-\1", match["anchor"] or "")
        return f"[{match['label']}]({target}{anchor})"

    return _LINK.sub(pointed, _MARK.sub("", markdown))


def on_page_content(html: str, page: Page, **_: object) -> None:
    """Tell MkDocs of the anchors of code lines, which it does not see by itself, so that it checks links to them."""
    if page.present_anchor_ids is not None:
        page.present_anchor_ids.update(_LINE_ID.findall(html))


def _linked_sources(markdown: str, place: Path) -> set[Path]:
    found = (_source(match["path"], place.parent) for match in _LINK.finditer(markdown))
    return {source for source in found if source is not None}


def _source(link: str, folder: Path) -> Path | None:
    """The file that a link means, from the root of the repository; None for pages and pictures of the notes."""
    path = _file(link, folder)
    return None if path is None or _is_note(path) else path


def _note(link: str, folder: Path) -> str | None:
    """The page or picture of the notes that a link means, from their folder; None for other files."""
    path = _file(link, folder)
    return path.relative_to("notes").as_posix() if path is not None and _is_note(path) else None


def _is_note(path: Path) -> bool:
    return path.parts[0] == "notes" and path.suffix in (".md", ".svg", ".png")


def _file(link: str, folder: Path) -> Path | None:
    target = (ROOT / folder / link).resolve()
    return target.relative_to(ROOT) if target.is_file() and target.is_relative_to(ROOT) else None


def _place(page: File) -> Path:
    """Where the Markdown of a page lies in the repository."""
    folder, _, rest = page.src_uri.partition("/")
    return Path(rest) if folder == FOLDER else Path("notes") / page.src_uri


def _page_of(source: Path) -> str:
    return f"{FOLDER}/{source.as_posix()}" + ("" if source.suffix == ".md" else ".md")


def _content(source: Path) -> str:
    text = (ROOT / source).read_text(encoding="utf-8")
    if source.suffix != ".md":
        language = LANGUAGES.get(source.suffix, "text")
        text = f'# `{source.as_posix()}`\n\n~~~~~~ {language} linenums="1"\n{text}~~~~~~\n'
    # Of no use to a reader who searches the notes, and wide.
    return f"---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n{text}"
