"""A small TableGen rule: one mlir-tblgen call an output."""

def weft_tablegen(name, td_file, outs, td_srcs = [], visibility = None):
    """outs: list of (flags, output file). td_srcs: targets or files that td_file includes."""
    for i, (flags, out) in enumerate(outs):
        native.genrule(
            name = "%s_%d" % (name, i),
            srcs = [td_file] + td_srcs + ["@llvm//:td_files"],
            outs = [out],
            cmd = "/usr/lib/llvm-22/bin/mlir-tblgen %s -I /usr/lib/llvm-22/include -I . $(location %s) -o $@" % (flags, td_file),
            visibility = visibility,
        )
    native.cc_library(
        name = name,
        textual_hdrs = [out for (_, out) in outs],
        visibility = visibility,
    )
