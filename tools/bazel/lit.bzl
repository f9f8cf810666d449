"""lit tests: one Bazel test a folder of files with RUN lines; each file counts as a test case of its own."""

def weft_lit_test(name, srcs, tools = [], data = [], **kwargs):
    """srcs: files with RUN lines. tools: binaries that RUN lines call by name. data: files that RUN lines read, copied beside srcs (%S)."""
    native.sh_test(
        name = name,
        srcs = ["//tools/bazel:run_lit.sh"],
        args = ["$(location //tools/bazel:lit.cfg.py)"] +
               ["--tool=$(rootpath %s)" % t for t in tools] +
               ["--data=$(rootpaths %s)" % d for d in data] +
               ["$(rootpaths %s)" % s for s in srcs],
        data = ["//tools/bazel:lit.cfg.py"] + tools + data + srcs,
        **kwargs
    )
