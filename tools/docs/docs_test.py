#!/usr/bin/env python3
"""docs_test.py FILE_OF_THE_ROOT: holds docs/, CONTRIBUTING.md and every README.md against the tree.

What stands in backticks is a name, and a name must exist: a file, an op, a pass, a target, an
environment variable, an identifier of C++. Chapters have a bounded length; lines of the root's and
of docs/' pages a bounded width. What is planned has a page of its own (docs/roadmap.md), whose
names need not exist.
"""

import os
import re
import sys

GENERATED = {"docs/ops.md"}  # and docs/api/: other tests hold them against their sources
# Made by benchmarks/report.py: tables, with names of peers.
MEASURED = {"docs/performance.md", "docs/performance-avx2.md"}
PLANNED = {"docs/roadmap.md"}
NO_CHAPTERS = {"README.md", "CONTRIBUTING.md", "docs/patterns.md", "docs/caches.md"}
MAX_WIDTH = 100
MAX_CHAPTER = 150

# Names in examples, which stand for the reader's own.
PLACEHOLDERS = {
    "name_test.cpp", "NameTest.cpp", "my_pass.so", "my_pass.cpp", "toy.so", "mine.so",
    "bazel-bin/FOLDER/NAME_test", "mine.softsign", "Mine_Dialect",
}
# What examples, benchmarks and dumps make.
OUTPUTS = ("dump/", "digits_out/", ".venv-peers/", "./generate", "char_gpt.h", "vocabulary.h", "build.sh")
# Names that others own: commands of the machine, PyTorch's functions, styles of names.
FOREIGN = {
    "clang-format-22", "apt-get", "qemu-user", "x86-64", "CamelCase", "snake_case", "kCamelCase",
    "masked_scatter", "register_hook", "WeightedRandomSampler", "float64/",
    "replace_module", "register_parameter", "register_module", "trunc_normal_",
}

# What pkg-config knows, and files that the build makes.
PACKAGES = {"weft-distributed", "weft-plugin", "weft-compiler"}
BUILT = {"libweft_aot.a", "elementwise.inc"}

SOURCE = re.compile(r"\.(h|c|cpp|td|py|sh|bzl|inc|mlir|test)$|(^|/)(BUILD|WORKSPACE|\.bazelrc)$")
FILE_NAME = re.compile(r"^[\w.*+-]+\.(h|c|cpp|td|py|sh|bzl|inc|md|mlir|a|map|supp)$")
QUALIFIED = re.compile(r"^(weft|nn|optim|data|io|runtime|compiler|ir|backends)::[\w:]+")


class Tree:
    """The source tree: its files, and the names that they define."""

    def __init__(self, root):
        self.root = root
        self.files, self.folders = set(), set()
        for folder, folders, files in os.walk(root):
            skipped = (".git", ".venv", "bazel-", "__py")
            folders[:] = [f for f in folders if not f.startswith(skipped)]
            inside = os.path.relpath(folder, root)
            inside = "" if inside == "." else inside + "/"
            self.folders.update(inside + f for f in folders)
            self.files.update(inside + f for f in files)
        self.top = {f.split("/")[0] for f in self.files}
        self.base = {os.path.basename(f) for f in self.files}
        self.text = {f: self.read(f) for f in sorted(self.files)
                     if SOURCE.search(f) and not f.startswith("tools/docs/")}
        everything = "\n".join(self.text.values())
        self.words = set(re.findall(r"[A-Za-z_]\w*", everything))
        self.hyphenated = set(re.findall(r"[A-Za-z0-9]+(?:[-.][A-Za-z0-9_]+)+", everything))
        self.ops = set(re.findall(r"^### `(weft\.\w+)`", self.read("docs/ops.md"), re.M))
        # Headings of pages that headers make, and rows of their tables of elementwise functions.
        function = re.compile(r"^(?:### |\| )`(?:\w+::)*(\w+)[`(]", re.M)
        self.functions = {name for file in sorted(self.files) if file.startswith("docs/api/")
                          for name in function.findall(self.read(file))}
        ir = "\n".join(text for file, text in self.text.items()
                       if file.startswith(("dialects/", "compiler/")) and "est" not in file)
        self.attributes = set(re.findall(r'"((?:weft|plan)\.\w+)"', ir))
        self.plan_ops = {"plan." + name for name in re.findall(
            r'^def Plan_\w+ : Plan_\w+<"(\w+)"', self.read("dialects/plan/ir/PlanOps.td"), re.M)}
        self.passes = set(re.findall(r'Pass<"([\w-]+)"', everything))
        for file, text in self.text.items():
            if file.startswith("compiler/"):
                self.passes.update(re.findall(r'getArgument\(\)[^}]*?return "([\w-]+)"', text))
        self.phases = re.findall(r'\{Phase::\w+, "(\w+)"', self.read("compiler/pipeline/Phase.cpp"))
        self.tools = set(re.findall(r'(?:cc|mlir|plain)_binary\(\s*name = "([\w-]+)"', self.read("tools/BUILD")))
        # A flag that a tool takes by name, without its dashes.
        tools = "".join(self.read(f"tools/{tool}.cpp") for tool in self.tools)
        self.flags = set(re.findall(r'[" -]-?(weft-[\w-]+)=?', tools))
        # Read by getenv() or a wrapper of it, or by a script; not only set by a test.
        self.variables = set(re.findall(r'(?<!setenv)\(\s*"(WEFT_\w+)"', everything))
        self.variables.update(re.findall(r"\$\{?(WEFT_\w+)", everything))
        self.macros = set(re.findall(r"(?:#define|enum \{|^  )\s*(WEFT_\w+)", everything, re.M))

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def has_path(self, path):
        """A file or folder by its path from the root; `*` stands for any name."""
        path = path.rstrip("/")
        if path in (".", "..."):
            return True
        if "*" in path:
            pattern = re.compile(re.escape(path).replace(r"\*", "[^/]*"))
            return any(pattern.fullmatch(f) for f in self.files | self.folders)
        return path in self.files or path in self.folders

    def has_tail(self, path):
        """A file or folder by the end of its path."""
        pattern = re.compile("(.*/)?" + re.escape(path.rstrip("/")).replace(r"\*", "[^/]*"))
        return any(pattern.fullmatch(f) for f in self.files | self.folders)

    def has_target(self, label):
        package, _, target = label[2:].partition(":")
        if package.endswith("..."):
            return package == "..." or package[:-3].rstrip("/") in self.folders
        build = (package + "/" if package else "") + "BUILD"
        if build not in self.files:
            return False
        target = target or package.rsplit("/", 1)[-1]
        return f'"{target}"' in self.read(build) or self.has_path(f"{package}/{target}")


class Page:
    def __init__(self, tree, path, text):
        self.tree, self.path = tree, path
        self.lines = text.split("\n")
        self.complaints = []

    def complain(self, number, message):
        self.complaints.append(f"{self.path}:{number}: {message}")

    def check(self):
        self.check_lengths()
        self.check_links()
        self.check_missing()
        if self.path in PLANNED:
            return
        for number, span, fenced in self.spans():
            self.check_code(number, span)
            if not fenced:
                self.check_name(number, span)

    def spans(self):
        """(line, text, whether it is a line of a code block) of all code. A span in backticks may
        go on in the next line of its paragraph."""
        fenced = False
        paragraph, start = "", 0

        def of_paragraph():
            for match in re.finditer(r"`([^`]+)`", paragraph):
                line = start + paragraph[: match.start()].count("\n")
                yield line, match.group(1).replace("\n", " "), False

        for number, line in enumerate(self.lines, 1):
            if line.lstrip().startswith("```"):
                yield from of_paragraph()
                paragraph = ""
                fenced = not fenced
                continue
            if fenced:
                yield number, line, True
                continue
            if not line.strip() or line.startswith("|"):
                yield from of_paragraph()
                paragraph, start = "", number
            if not paragraph:
                start = number
            paragraph += line + "\n"
        yield from of_paragraph()

    def check_lengths(self):
        if self.path.endswith("/README.md") and self.path != "docs/README.md":
            return
        fenced = False
        for number, line in enumerate(self.lines, 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            free = self.path in NO_CHAPTERS and (fenced or line.startswith("|"))
            if len(line) > MAX_WIDTH and not free:
                self.complain(number, f"{len(line)} columns; a line has at most {MAX_WIDTH}")
        lines = len(self.lines) - 1
        if self.path not in NO_CHAPTERS and lines > MAX_CHAPTER:
            self.complain(lines, f"{lines} lines; a chapter has at most {MAX_CHAPTER}")

    def check_links(self):
        text = "\n".join(self.lines)
        here = os.path.dirname(self.path)
        for match in re.finditer(r"\]\(([^)\s]+)\)(?:,\s+\"([^\"]+)\")?", text):
            number = text[: match.start()].count("\n") + 1
            target, heading = match.groups()
            if re.match(r"https?:", target):
                continue
            path = os.path.normpath(os.path.join(here, target.split("#")[0]))
            if not self.tree.has_path(path):
                self.complain(number, f"the link leads to {path}, which does not exist")
            elif heading and path.endswith(".md"):
                heading = " ".join(heading.split())
                if not re.search(rf"^#+ .*{re.escape(heading)}", self.tree.read(path), re.M):
                    self.complain(number, f'{path} has no section "{heading}"')

    def check_missing(self):
        """What a table says is not there, no page of the functions may have."""
        for number, line in enumerate(self.lines, 1):
            match = re.match(r"\|(.*)\| not there", line)
            for name in re.findall(r"`(\w+)`", match.group(1) if match else ""):
                if name in self.tree.functions:
                    self.complain(number, f"{name} is there: docs/api/ has it")

    def check_code(self, number, code):
        """What any code may hold: variables, labels, passes and phases of weft-opt."""
        tree = self.tree
        for name in re.findall(r"\bWEFT_[A-Z_]+\b", code):
            if name not in tree.variables and name not in tree.macros:
                self.complain(number, f"{name} is read nowhere")
        for label in re.findall(r"(?<![:\w/])(//[\w/.-]+(?::[\w./+-]+)?)", code):
            if not tree.has_target(label):
                self.complain(number, f"there is no target {label}")
        for flag in re.findall(r"(?<![\w-])--(weft-[\w-]+)", code):
            if flag not in tree.passes | tree.flags and flag != "weft-my-pass":
                self.complain(number, f"no tool takes --{flag}: it is neither a pass nor a flag")
        for phases in re.findall(r"--weft-phase=([\w.]+)", code):
            for phase in phases.split(".."):
                if phase and not phase.isupper() and phase not in tree.phases:
                    self.complain(number, f"'{phase}' is no phase")
        for tool in re.findall(r"bazel-bin/tools/(weft-[\w-]+)", code):
            if tool not in tree.tools:
                self.complain(number, f"//tools:{tool} does not exist")

    def check_name(self, number, span):
        """What a span of prose is, as a whole, by its form."""
        tree = self.tree
        span = span.strip()
        first = re.split(r"[\s=(]", span)[0]
        if not span or first in FOREIGN | PLACEHOLDERS or first.startswith(OUTPUTS):
            return
        if re.fullmatch(r"weft\.[a-z]\w*", span) and not FILE_NAME.match(span):
            if span not in tree.ops | tree.attributes:
                self.complain(number, f"there is no op and no attribute {span}")
        elif re.fullmatch(r"plan\.[a-z]\w*", span):
            if span not in tree.plan_ops | tree.attributes:
                self.complain(number, f"there is no op and no attribute {span}")
        elif re.fullmatch(r"(weft|plan)-[a-z-]+", first):
            if first not in tree.passes | tree.tools | PACKAGES:
                self.complain(number, f"{first} is neither a pass nor a tool")
        elif FILE_NAME.match(first):
            pattern = re.compile(re.escape(first).replace(r"\*", ".*"))
            if not any(pattern.fullmatch(name) for name in tree.base | BUILT):
                self.complain(number, f"no file is called {first}")
        elif re.fullmatch(r"[\w.*+-]+(/[\w.*+-]+)*/?", first) and "/" in first:
            self.check_path(number, first)
        elif QUALIFIED.match(span):
            name = re.findall(r"\w+", QUALIFIED.match(span).group(0))[-1]
            if name not in tree.words:
                self.complain(number, f"no code has the name {span}")
        elif re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", span):
            if span not in tree.hyphenated:
                self.complain(number, f"no code has the name {span}")
        elif re.fullmatch(r"[A-Z]\w*[a-z]\w*(::\w+)*|k[A-Z]\w+|[a-z]+_\w+", span):
            name = span.split("::")[-1]
            if name not in tree.words:
                self.complain(number, f"no code has the name {span}")

    def check_path(self, number, path):
        tree = self.tree
        if path.startswith("."):
            path = os.path.normpath(os.path.join(os.path.dirname(self.path), path))
        top = path.split("/")[0]
        if path.startswith("weft/") and not tree.has_tail(path):
            path = "frontend/" + path[len("weft/"):].replace("...", "")
            top = "frontend"
        if path.startswith("bazel-bin/"):
            return
        known = tree.has_path(path) if top in tree.top else tree.has_tail(path)
        if not known and not re.search(r"FOLDER|NAME", path):
            self.complain(number, f"there is no {path}")


def missing_variables(tree, page):
    """The variables that code reads and that no row of a table of the page begins with."""
    cells = re.findall(r"^\|([^|]*)\|", page, re.M)
    return tree.variables - set(re.findall(r"`(WEFT_\w+)", " ".join(cells)))


def check_contents(tree, pages):
    """docs/README.md names every page; the compiler's chapter every phase, that of variables every
    variable."""
    contents = tree.read("docs/README.md")
    for page in pages:
        name = os.path.basename(page)
        if page.startswith("docs/") and name != "README.md" and f"({name})" not in contents:
            yield f"docs/README.md: {page} is not in the table of contents"
    for name in sorted(missing_variables(tree, tree.read("docs/environment.md"))):
        yield f"docs/environment.md: {name} is read, and has no row there"
    rows = re.findall(r"^\| `(\w+)` \|", tree.read("docs/compiler.md"), re.M)
    if rows[: len(tree.phases)] != tree.phases:
        yield f"docs/compiler.md: the table of phases is {rows}, not {tree.phases}"


# Pages that must each give one complaint: what this test is for.
WRONG = [
    "`weft.unheard_of`", "`plan.unheard_of`", "`weft-unheard-of`", "`plan-unheard-of`",
    "`compiler/unheard/of.cpp`", "`UnheardOf.cpp`", "`unheard/of/`", "`weft::unheard_of`",
    "`unheard_of`", "`UnheardOf`", "`unheard-of`", "`WEFT_UNHEARD_OF=1`",
    "`bazel test //tools:unheard_of`", "`//unheard/of:x`",
    "```\nweft-opt --weft-unheard-of\n```", "```\nweft-opt --weft-phase=import..unheard\n```",
    "```\nbazel-bin/tools/weft-unheard-of\n```", "[a link](unheard_of.md)",
    '([Memory](memory.md), "Unheard of")', "| `lgamma` | not there |",
    "x" * (MAX_WIDTH + 1), "\n" * MAX_CHAPTER,
]


def main():
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    tree = Tree(root)
    for kind in ("ops", "functions", "plan_ops", "passes", "phases", "tools", "variables"):
        if len(getattr(tree, kind)) < 3:
            sys.exit(f"docs_test.py looks for {kind} in the wrong place: it finds next to none")
    for wrong in WRONG:
        page = Page(tree, "docs/wrong.md", wrong + "\n")
        page.check()
        if len(page.complaints) != 1:
            sys.exit(f"docs_test.py must complain once of {wrong!r}; it says {page.complaints}")

    if missing_variables(tree, "`WEFT_EAGER`\n| variable |\n|---|\n") != tree.variables:
        sys.exit("docs_test.py must miss each variable in a page that has no row of it")

    pages = sorted(f for f in tree.files
                   if re.fullmatch(r"docs/[\w.-]+\.md|CONTRIBUTING\.md|(.*/)?README\.md", f)
                   and not f.startswith("docs/api/"))
    complaints = list(check_contents(tree, pages))
    for path in pages:
        if path in GENERATED | MEASURED:
            continue
        page = Page(tree, path, tree.read(path))
        page.check()
        complaints += page.complaints
    for complaint in complaints:
        print(complaint)
    print(f"{len(pages)} pages, {len(complaints)} complaints")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
