"""Reads the public declarations of C++ headers with their comments, for api.py.

A declaration's comment stands in front of it, or behind it in its line. A comment that an empty
line parts from what follows is a paragraph; `// --- Title. Text ---` begins a section. Headers are
read as clang-format leaves them: this is no parser of all of C++.
"""

import re

# Namespaces whose declarations are public; others are the library's own.
PUBLIC = {"weft", "weft::nn", "weft::optim", "weft::data", "weft::distributed", "weft::io",
          "weft::image", "weft::text", "weft::models", "weft::nn::init"}


class Declaration:
    """One declaration: its text without a body, its comment, and for a class its members."""

    def __init__(self, text, comment, section=None):
        self.text, self.comment, self.section = text, comment, section
        self.members = None  # of a class or struct: Declarations and strings (paragraphs)

    @property
    def bare(self):
        """The text without template parameters and their requirements."""
        text = without_brackets(self.text[9:]) if self.text.startswith("template <") else self.text
        while text.startswith("requires"):
            text = without_brackets(text[len("requires"):].strip())
        return text

    @property
    def template(self):
        """template <...>, or nothing."""
        if not self.text.startswith("template <"):
            return ""
        text = self.text[: len(self.text) - len(without_brackets(self.text[9:]))].strip()
        return text.partition(" = ")[0] + ">" if "recorder::" in text else text

    @property
    def kind(self):
        word = self.bare.split(" ", 1)[0]
        if word in ("class", "struct", "union", "enum", "using", "concept"):
            return word
        is_value = "=" in top_level(re.sub(r"= (default|delete|0)$", "", self.bare))
        return "function" if "(" in self.bare and not is_value else "variable"

    @property
    def name(self):
        """As users write it: matmul, Tensor, operator+, kMean."""
        text = self.bare
        if match := re.search(r"\boperator\s*(\(\)|\[\]|[^\s(\w]+|\w[\w &*]*)\s*\(", text):
            return "operator" + match.group(1).strip()
        if self.kind in ("class", "struct", "union", "enum"):
            text = re.sub(r"^enum class", "enum", text)
            match = re.match(r"\w+ (\w+(<.*>)?)", text.split(" : ")[0])
            return match.group(1) if match else ""
        if self.kind in ("using", "concept"):
            return text.split()[1]
        if self.kind == "function":
            return re.search(r"(~?\w+)\s*\(", text).group(1)
        names = re.findall(r"(\w+)\s*(?:=|\{|,|$|\[)", text)
        return names[0] if names else text


class Reader:
    """Reads the public declarations of one header."""

    def __init__(self, text):
        self.text, self.at = text, 0
        self.macros = []

    # --- Pieces of text ---

    def comment(self):
        """The comment at the cursor: its lines, without slashes."""
        lines = []
        column = self.column()
        while match := re.compile(r"//(.*)\n").match(self.text, self.at):
            lines.append(match.group(1)[1:] if match.group(1).startswith(" ") else match.group(1))
            self.at = match.end()
            following = re.compile(r"[ \t]*").match(self.text, self.at)
            if self.text[following.end():following.end() + 2] != "//":
                break
            # Behind code, a comment goes on only where it stands below its first line.
            if following.end() - following.start() != column:
                break
            self.at = following.end()
        return lines

    def column(self):
        return self.at - (self.text.rfind("\n", 0, self.at) + 1)

    def skip_brackets(self):
        """Moves behind the bracket that closes the one at the cursor; gives what lies between."""
        pairs = {"{": "}", "(": ")", "[": "]"}
        depth, start = 0, self.at
        opening = self.text[self.at]
        while self.at < len(self.text):
            self.skip_quoted()
            char = self.text[self.at]
            if char == opening:
                depth += 1
            elif char == pairs[opening]:
                depth -= 1
                if depth == 0:
                    self.at += 1
                    return self.text[start + 1:self.at - 1]
            self.at += 1
        raise SyntaxError(f"'{opening}' is never closed: {self.text[start:start + 60]!r}")

    def skip_quoted(self):
        """Over comments and literals, which may hold brackets."""
        while match := re.compile(r'//[^\n]*|"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'').match(
                self.text, self.at):
            self.at = match.end()

    # --- Declarations ---

    def read(self, scope="", access="public"):
        """Declarations and paragraphs up to the end of the scope."""
        items, pending, section = [], [], None
        last = None  # the declaration before, while a comment behind it may still follow
        while True:
            gap = re.compile(r"\s*").match(self.text, self.at)
            newlines = gap.group().count("\n")
            self.at = gap.end()
            if pending and newlines > 1:
                self.paragraph(items, pending, access)
                pending = []
            if newlines:
                last = None
            if self.at >= len(self.text) or self.text[self.at] == "}":
                self.paragraph(items, pending, access)
                return items
            if self.text.startswith("//", self.at):
                lines = self.comment()
                # comment() ends behind the newline of its last line.
                self.at -= 1
                if last is not None:
                    last.comment = last.comment + ([""] if last.comment else []) + lines
                else:
                    title, rest = self.section(lines)
                    if title:
                        self.paragraph(items, pending, access)
                        if access == "public":
                            items.append(title)
                        pending = rest
                    else:
                        pending = pending + lines
                continue
            if self.text[self.at] == "#":
                line = re.compile(r"#(?:[^\n]*\\\n)*[^\n]*").match(self.text, self.at)
                self.at = line.end()
                if access == "public" and re.match(r'#include ".*elementwise\.inc"', line.group()):
                    items.append(("elementwise", scope, pending))
                    pending = []
                continue
            if match := re.compile(r"[A-Z_]+\(\w*\)\n").match(self.text, self.at):
                self.at = match.end() - 1  # a macro that declares nothing that users name
                continue
            if match := re.compile(r"(public|private|protected)\s*:").match(self.text, self.at):
                self.paragraph(items, pending, access)
                pending, access = [], match.group(1)
                self.at = match.end()
                continue
            if match := re.compile(r"namespace ([\w:]+) \{").match(self.text, self.at):
                self.at = match.end() - 1
                inner = f"{scope}::{match.group(1)}" if scope else match.group(1)
                if inner in PUBLIC:
                    self.at += 1
                    items += [("namespace", inner), *self.read(inner), ("namespace", scope)]
                    self.at += 1
                else:
                    self.skip_brackets()
                self.at = re.compile(r"[ \t]*(// namespace[^\n]*)?").match(self.text, self.at).end()
                pending = []
                continue
            last = self.declaration(pending, scope)
            pending = []
            if last is not None and access != "private" and self.is_public(last):
                items.append(last)

    @staticmethod
    def paragraph(items, lines, access):
        if lines and access == "public":
            items.append("\n".join(lines))

    @staticmethod
    def section(lines):
        """(title, further lines) of `--- Title. Text ---`; else (None, ...)."""
        text = "\n".join(lines)
        match = re.match(r"--- (.*?) ---\s*(.*)", text, re.S)
        if not match:
            return None, lines
        return ("section", " ".join(match.group(1).split())), \
            match.group(2).split("\n") if match.group(2) else []

    @staticmethod
    def is_public(declaration):
        text = declaration.text
        if not text or text.startswith(("friend ", "static_assert", "extern ")):
            return False
        if re.search(r"\brecorder::|\bconsteval\b|= delete$| (override|final)$", declaration.bare):
            return False  # what overrides is documented where it is declared first
        if declaration.kind == "function" and "::" in text[: text.index("(")].split(" ")[-1]:
            return False  # the body of a member that is declared in its class
        if not declaration.comment and re.search(r"^(virtual )?~|^(\w+)\((const )?\2 &&?\w*\)|"
                                                 r"^(\w+) &operator=\((const )?\4 &&?\w*\)", text):
            return False  # copies, moves and destructors that do what everybody expects
        if re.fullmatch(r"(class|struct) \w+", text) and declaration.members is None:
            return False  # named here, declared elsewhere
        return True

    def declaration(self, comment, scope):
        """The declaration at the cursor, up to its semicolon or the end of its body."""
        start = self.at
        header = re.compile(r"(template <[^{;]*?>\s*)?"
                            r"(class|struct|union|enum class|enum)\b[^;{(=]*\{").match(self.text,
                                                                                      self.at)
        if header:
            self.at = header.end() - 1
            found = Declaration(squeeze(header.group()[:-1]), comment)
            if found.kind == "enum" or found.kind == "union":
                found.body = self.skip_brackets()
            else:
                self.at += 1
                access = "private" if found.kind == "class" else "public"
                found.members = self.read("class", access)
                self.at += 1
            end = re.compile(r"[^;]*;").match(self.text, self.at)
            self.at = end.end()
            return found
        depth, text_end, initializers = 0, None, False
        while True:
            self.skip_quoted()
            char = self.text[self.at]
            before = self.text[start:self.at].rstrip()
            if char in "([":
                depth += 1
            elif char in ")]":
                depth -= 1
            elif char == ":" and depth == 0 and before.endswith((")", "noexcept")) and \
                    self.text[self.at + 1] != ":":
                text_end = text_end or self.at
                initializers = True
            elif char == "{" and depth == 0:
                is_value = re.search(r"=$|\breturn$", before) or "=" in top_level(before) or \
                    (initializers and re.search(r"[\w>]$", before)) or "(" not in before
                if not is_value:
                    text_end = text_end or self.at
                    self.skip_brackets()
                    if self.text[self.at:self.at + 1] == ";":
                        self.at += 1
                    break
                self.skip_brackets()
                continue
            elif char == "{":
                self.skip_brackets()
                continue
            elif char == ";" and depth == 0:
                text_end = text_end or self.at
                self.at += 1
                break
            self.at += 1
        return Declaration(clean(squeeze(self.text[start:text_end])), comment)


def top_level(text):
    """text without what stands in brackets, to see whether an initializer has begun."""
    text = re.sub(r"operator\s*(\(\)|\[\]|[^\w\s(]+)", "operator", text)
    previous = None
    while previous != text:
        previous = text
        text = re.sub(r"\([^()]*\)|<[^<>]*>", "", text)
    return text


def squeeze(text):
    """One line, without comments."""
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


def clean(text):
    """A declaration as a reader wants it: without the caller's location and specifiers that say
    nothing about use."""
    text = re.sub(r",? ?Location location = Location::current\(\)", "", text)
    text = re.sub(r"^(inline|\[\[nodiscard\]\]) ", "", text)
    return text


def without_brackets(text):
    """text behind the bracket that opens it, (...) or <...>; or behind its first word, the template
    arguments of which belong to it."""
    closing = {"(": ")", "<": ">"}.get(text[:1])
    if closing is None:
        rest = text[re.match(r"[\w:]*", text).end():]
        return without_brackets(rest) if rest.startswith("<") else rest.partition(" ")[2]
    depth = 0
    for at, char in enumerate(text):
        depth += (char == text[0]) - (char == closing and text[at - 1] != "-")
        if depth == 0:
            return text[at + 1:].strip()
    return ""
