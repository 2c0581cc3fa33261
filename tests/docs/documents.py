"""The project's pages as data: their code blocks, tables and links."""

import dataclasses
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Folders that are not the project's text.
FOREIGN = ("build", ".git", ".testbed", ".muster", ".venv")


@dataclasses.dataclass
class Paragraph:
    """A part of a code block between two empty lines."""
    page: str      # "docs/user/sbatch.md"
    line: int
    language: str  # of its fence; "" for an indented block
    lines: list

    @property
    def is_script(self):
        return self.lines[0].startswith("#!")

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def __str__(self):
        return f"{self.page}:{self.line}"


def all_pages():
    """Every Markdown file of the checkout."""
    for path in sorted(ROOT.rglob("*.md")):
        name = path.relative_to(ROOT)
        if not name.parts[0].startswith(FOREIGN):
            yield name.as_posix()


def pages_with_commands():
    """The pages whose command lines a reader types."""
    return [name for name in all_pages() if name == "README.md" or re.match(r"docs/(user|admin|dev)/", name)]


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def code_blocks(page):
    """(first line's number, language, lines) of fenced and indented blocks."""
    lines = read(page).split("\n")
    at = 0
    while at < len(lines):
        fence = re.match(r"\s*```(\w*)\s*$", lines[at])
        start = at
        if fence:
            at += 1
            while not re.match(r"\s*```\s*$", lines[at]):
                at += 1
            yield start + 2, fence.group(1), textwrap.dedent("\n".join(lines[start + 1:at])).split("\n")
        elif lines[at].startswith("    ") and at and not lines[at - 1].strip():
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            body = "\n".join(lines[start:at]).rstrip()
            yield start + 1, "", textwrap.dedent(body).split("\n")
            continue
        at += 1


def paragraphs(page):
    for number, language, lines in code_blocks(page):
        part = []
        for offset, line in enumerate([*lines, ""]):
            if line.strip():
                part.append(line)
            elif part:
                yield Paragraph(page, number + offset - len(part), language, part)
                part = []


def scripts():
    """Every batch script that a page shows; a line `exec muster run ...` alone is one without its head."""
    for page in pages_with_commands():
        for paragraph in paragraphs(page):
            if paragraph.is_script:
                yield paragraph
            elif paragraph.language == "" and len(paragraph.lines) == 1 and paragraph.lines[0].startswith("exec "):
                head = ["#!/bin/bash", "#SBATCH --nodes=2"]
                yield dataclasses.replace(paragraph, lines=head + paragraph.lines)


def command_lines():
    """(paragraph, command) of all lines that a reader types into a shell, without their comments."""
    for page in pages_with_commands():
        for paragraph in paragraphs(page):
            if paragraph.is_script or paragraph.language not in ("", "sh", "bash"):
                continue
            for line in paragraph.lines:
                command = re.sub(r"\s+# .*$", "", line).strip()
                if command and not command.startswith(("#", "exec ")):
                    yield paragraph, command


def program():
    """The train.py that docs/user/saving-and-resuming.md shows."""
    found = [lines for _, language, lines in code_blocks("docs/user/saving-and-resuming.md") if language == "python"]
    return "\n".join(found[0]) + "\n"


def section(page, title):
    """The text below a heading, up to the next one of its level."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", read(page), re.M | re.S)
    return match.group(1) if match else ""


def headings(page):
    return re.findall(r"^## (.*)$", read(page), re.M)


def links(page):
    """(target, line number) of relative links."""
    for number, line in enumerate(read(page).split("\n"), 1):
        for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", line):
            if not re.match(r"[a-z]+:|#", target):
                yield target.split("#")[0], number


def read_header():
    """The contract's names and numbers."""
    return (ROOT / "proto" / "environment.h").read_text(encoding="utf-8")
