"""One number for all sources that a library is made of, so that what a compiler keeps on disk is left behind when the compiler changes."""

load("//tools/bazel:precompiled.bzl", "mlir_library")

_SOURCES = ["srcs", "hdrs", "textual_hdrs", "data"]
_EDGES = ["deps", "srcs", "hdrs", "textual_hdrs"]

_SourcesInfo = provider(fields = {"files": "depset of this repository's source files, over all dependencies"})

def _collect_impl(target, ctx):
    own = []
    for attribute in _SOURCES:
        # Generated files are left out: what they are generated from is in.
        own += [f for f in getattr(ctx.rule.files, attribute, []) if f.is_source and not f.owner.workspace_name]
    below = []
    for attribute in _EDGES:
        for edge in getattr(ctx.rule.attr, attribute, []):
            if _SourcesInfo in edge:
                below.append(edge[_SourcesInfo].files)
    return [_SourcesInfo(files = depset(own, transitive = below))]

_collect = aspect(implementation = _collect_impl, attr_aspects = _EDGES)

def _source_digest_impl(ctx):
    files = depset(ctx.files.srcs, transitive = [dep[_SourcesInfo].files for dep in ctx.attr.deps])
    args = ctx.actions.args()
    args.use_param_file("%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add_all(files, uniquify = True)

    # sha256sum prints the name beside each file's digest, so that a moved file counts as well.
    # sort: the order of dependencies does not count.
    ctx.actions.run_shell(
        inputs = files,
        outputs = [ctx.outputs.out],
        arguments = [args],
        command = "digest=$(LC_ALL=C sort $1 | xargs sha256sum | sha256sum | cut -c1-32) && " +
                  "printf 'inline constexpr const char *%s = \"%s\";\\n' " + ctx.attr.constant + " $digest > " + ctx.outputs.out.path,
        mnemonic = "SourceDigest",
    )
    return []

weft_source_digest = rule(
    implementation = _source_digest_impl,
    doc = "A header that defines CONSTANT, 32 hexadecimal digits over srcs and every source file of this repository that deps are made of.",
    attrs = {
        "constant": attr.string(mandatory = True),
        "deps": attr.label_list(aspects = [_collect]),
        "out": attr.output(mandatory = True),
        "srcs": attr.label_list(allow_files = True),
    },
)

def weft_compiler_library(name, srcs, hdrs, deps, **kwargs):
    """An mlir_library that can include its own digest, "CompilerDigest.inc" with kCompilerDigest, beside it.

    A backend's cache keys hold it: whoever changes the compiler leaves the programs behind that it compiled before.
    """
    weft_source_digest(
        name = name + "_digest",
        srcs = srcs + hdrs,
        out = "CompilerDigest.inc",
        constant = "kCompilerDigest",
        deps = deps,
    )
    mlir_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        textual_hdrs = ["CompilerDigest.inc"],
        deps = deps,
        **kwargs
    )
