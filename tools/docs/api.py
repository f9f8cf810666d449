#!/usr/bin/env python3
"""Makes docs/api/ from the comments of the public headers: one page a header.

    api.py check PAGES... HEADERS...    fails where PAGES, docs/api/*.md, are not what HEADERS give
    api.py update HEADERS...            writes docs/api/ in the workspace
    api.py missing HEADERS...           lists the declarations that have no comment

headers.py says what a declaration's comment is; overloads that follow each other share one. The
generated list of elementwise functions (elementwise.inc) is one of HEADERS.
"""

import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from headers import Declaration, Reader

# Declarations without a comment. The number may only fall: whoever adds a public declaration says
# what it is, whoever documents one lowers it here.
MISSING = 45
WIDTH = 100


def escape(text):
    """Markdown has meanings for these; code in backticks keeps them."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*<])", r"\\\1", p) for p in parts)


def wrap(text, width=WIDTH):
    """Lines of at most `width`; none begins with what Markdown takes for a list or a heading."""
    text = re.sub(r" (?=([-+#=>]|\d+[.)])(\s|$))", "\x01", text)
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line += (" " if line else "") + word
    return [one.replace("\x01", " ") for one in lines + [line] if one]


def prose(lines):
    """Comment lines as Markdown: indented ones are code, those that begin with a dash a list."""
    out, paragraph, code = [], [], []

    def flush():
        nonlocal paragraph, code
        if paragraph:
            out.extend(wrap(escape(" ".join(p.strip() for p in paragraph))) + [""])
        if code:
            out.extend(["```cpp"] + [c[2:] for c in code] + ["```", ""])
        paragraph, code = [], []

    for line in lines:
        if line.startswith("  "):
            if paragraph:
                flush()
            code.append(line)
        elif not line.strip():
            flush()
        else:
            if code or line.startswith("- "):
                flush()
            paragraph.append(line)
    flush()
    return out


def signature(declaration):
    """A declaration in lines of at most WIDTH, cut at commas of its arguments. Of a template's
    requirements only those in angles are shown: they say which types are meant."""
    text = declaration.bare + ";"
    if declaration.template:
        return [declaration.template] + signature_lines(text)
    return signature_lines(text)


def signature_lines(text):
    if len(text) <= WIDTH or "(" not in text:
        return [text]
    head, rest = text[: text.index("(") + 1], text[text.index("(") + 1:]
    lines, line, depth = [], head, 0
    pieces, piece = [], ""
    for char in rest:
        depth += (char in "(<{[") - (char in ")>}]")
        piece += char
        if char == "," and depth == 0:
            pieces.append(piece.strip())
            piece = ""
    pieces.append(piece.strip())
    for piece in pieces:
        space = "" if line == head else " "
        if line != head and len(line) + len(space) + len(piece) > WIDTH:
            lines.append(line)
            line = "    " + piece
        else:
            line += space + piece
    return lines + [line]


def code(lines):
    return ["```cpp"] + lines + ["```", ""]


def type_lines(declaration):
    """An enum or a union in full."""
    body = " ".join(declaration.body.split()).rstrip(", ")
    line = f"{declaration.text} {{ {body} }};"
    if "//" not in body and len(line) <= WIDTH:
        return [line]
    lines = [l for l in declaration.body.strip("\n").split("\n") if l.strip()]
    least = min(len(l) - len(l.lstrip()) for l in lines)
    return [declaration.text + " {"] + ["  " + l[least:].rstrip() for l in lines] + ["};"]


def describe(declaration, out, level, overloads=()):
    """One declaration with its overloads, as Markdown."""
    kind = declaration.kind
    if kind in ("class", "struct"):
        out += [f"{'#' * level} `{declaration.name}`", ""]
        if declaration.template or ":" in declaration.bare.replace("::", ""):
            out += code(signature(declaration))  # else its name says as much
        out += prose(declaration.comment)
        members = declaration.members or []
        fields = [m for m in members if isinstance(m, Declaration)
                  and m.kind in ("variable", "using") and "static" not in m.text]
        if fields:
            out += code([line for one in fields for line in field(one)])
        write(members, out, level + 1, skip=fields)
        return
    lines = []
    for one in (declaration, *overloads):
        lines += type_lines(one) if kind in ("enum", "union") else signature(one)
    if level == 2:
        out += [f"### `{declaration.name}`", ""]
    out += code(lines)
    for one in (declaration, *overloads):
        out += prose(one.comment)


def field(declaration):
    """A member variable, with its comment in front."""
    lines = []
    for part in "\n".join(declaration.comment).split("\n\n"):
        lines += wrap(" ".join(part.split()), WIDTH - 3) if part else []
    return ["// " + line for line in lines] + [declaration.text + ";"]


def write(items, out, level, skip=()):
    at = 0
    while at < len(items):
        item = items[at]
        at += 1
        if isinstance(item, tuple) and item[0] == "section":
            title, _, rest = item[1].partition(": ") if ": " in item[1] else item[1].partition(". ")
            out += [f"{'#' * level} {escape(title.rstrip('.'))}", ""]
            out += prose([rest[:1].upper() + rest[1:]]) if rest else []
        elif isinstance(item, tuple):
            out += prose(item[2])
            out += ["The elementwise functions that come from the records of ops: "
                    "[ops.md](ops.md#elementwise-functions).", ""] if item[1] == "class" else []
        elif isinstance(item, str):
            out += prose(item.split("\n"))
        elif item not in skip:
            overloads = []
            while at < len(items) and is_overload(item, items[at]):
                overloads.append(items[at])
                at += 1
            describe(item, out, level, overloads)


def is_overload(first, second):
    return isinstance(second, Declaration) and first.kind == second.kind == "function" and \
        first.name == second.name and not second.comment


def needs_comment(declaration, owner):
    """Fields, operators and constructors say themselves what they are."""
    if declaration.kind in ("variable", "using") or declaration.name.startswith(("operator", "~")):
        return False
    if not declaration.name or "<" in declaration.name:
        return False  # a special case of what has a comment
    if declaration.name.endswith("Options"):
        return False  # what takes them says what they are for
    return owner is None or declaration.name != re.sub("<.*", "", owner.name)


def missing(items, documented, owner=None):
    """The declarations without a comment. A member function that stands for a documented function
    of the same name (x.exp() for exp(x)) has that one's."""
    previous = None
    for item in items:
        if not isinstance(item, Declaration):
            previous = None
            continue
        covered = item.comment or (previous and is_overload(previous, item)) or \
            (owner is not None and owner.name == "Tensor" and item.name.rstrip("_") in documented)
        if not covered and needs_comment(item, owner):
            yield f"{owner.name + '::' if owner else ''}{item.name}", item
        if item.members is not None:
            yield from missing(item.members, documented, item)
        previous = item if covered else None


def summary(items):
    """The header's own comment, and the items after it."""
    for i, item in enumerate(items):
        if isinstance(item, str):
            return item, items[:i] + items[i + 1:]
        if isinstance(item, Declaration):
            break
    return "", items


def with_namespaces(items):
    """A sentence where declarations begin that lie in another namespace than those before."""
    out, told, now = [], "weft", "weft"
    for item in items:
        if isinstance(item, tuple) and item[0] == "namespace":
            now = item[1]
            continue
        # What is told of a section stands above its title.
        is_titled = isinstance(item, tuple) and item[0] == "section"
        if now and now != told and (is_titled or isinstance(item, Declaration)):
            out.append(f"In namespace `{now}`.")
            told = now
        out.append(item)
    return out


def page(name, items, elementwise):
    text, items = summary(items)
    items = with_namespaces(items)
    out = [f"# `weft/{name}`", ""]
    out += prose(text.split("\n"))
    if name == "ops.h":
        out += ["## Elementwise functions", "",
                "From the records of ops; `x.exp()` is `exp(x)`, `x.exp_()` writes in place.", "",
                "| function | what |", "|---|---|"]
        for kind, function, doc in elementwise:
            call = f"{function}(x)" if kind == "UNARY" else f"{function}(x, y)"
            out.append(f"| `{call}` | {escape(doc)} |")
        out.append("")
    write(items, out, 2)
    return "\n".join(out).rstrip() + "\n"


def read_all(paths):
    """(pages by name of header, items by name, elementwise functions)."""
    headers, elementwise = {}, []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        name = path.split("frontend/")[-1]
        if path.endswith("elementwise.inc"):
            elementwise = re.findall(r'WEFT_(UNARY|BINARY)\((\w+), \w+, \w+, "(.*)"\)', text)
        elif "private" in text.split("\n#", 1)[0].lower():
            continue
        elif re.search(r"^(namespace|extern)", text, re.M):
            headers[name] = Reader(text).read()
    return headers, elementwise


def make(paths):
    """The files of docs/api/ by name, and what lacks a comment."""
    headers, elementwise = read_all(paths)
    functions = set(function for _, function, _ in elementwise)
    for items in headers.values():
        functions |= {i.name for i in items if isinstance(i, Declaration) and i.comment}
    pages, lacking = {}, []
    contents = ["# API", "",
                "The public headers, from their comments. Functions take their caller's line as a "
                "last argument,",
                "which these pages leave out. "
                "`bazel run //tools/docs:update_api` writes them anew.",
                "", "| header | what |", "|---|---|"]
    for name in sorted(headers, key=lambda n: (n.count("/"), n)):
        file = name.replace("/", "-").removesuffix(".h") + ".md"
        pages[file] = page(name, headers[name], elementwise)
        text, _ = summary(headers[name])
        first = re.split(r"(?<=\.)\s", " ".join(text.split()))[0]
        contents.append(f"| [`weft/{name}`]({file}) | {escape(first)} |")
        lacking += [(name, *found) for found in missing(headers[name], functions)]
    pages["README.md"] = "\n".join(contents) + "\n"
    return pages, lacking


def main():
    mode, paths = sys.argv[1], sorted(set(sys.argv[2:]))
    present = {os.path.basename(path): path for path in paths if "docs/api/" in path}
    pages, lacking = make([path for path in paths if "docs/api/" not in path])
    if mode == "missing":
        for header, name, declaration in lacking:
            print(f"{header}: {name}: {declaration.text}")
        print(len(lacking))
        return
    if mode == "update":
        folder = os.path.join(os.environ["BUILD_WORKSPACE_DIRECTORY"], "docs/api")
        os.makedirs(folder, exist_ok=True)
        for file in os.listdir(folder):
            if file not in pages:
                os.remove(os.path.join(folder, file))
        for file, text in pages.items():
            with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                out.write(text)
        return
    failed = False
    for file in sorted(set(pages) | set(present)):
        if file not in pages or file not in present or \
                open(present[file], encoding="utf-8").read() != pages[file]:
            print(f"docs/api/{file} is stale: run  bazel run //tools/docs:update_api")
            failed = True
    if len(lacking) != MISSING:
        for header, name, _ in lacking:
            print(f"weft/{header}: {name} has no comment")
        print(f"{len(lacking)} public declarations lack a comment, MISSING in api.py is {MISSING}: "
              + ("comment what you add" if len(lacking) > MISSING else "lower it"))
        failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
