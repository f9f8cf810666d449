"""Headers that are parsed once for all: what a file includes of MLIR takes 3 to 8 s to parse, the
dialect's ops 2 s, and both below a second to load; weft.h takes 2 s, GoogleTest as long, and half of
what the other files take to compile is the standard library.

The rules below are Bazel's own otherwise. A file still includes what it uses: with
--define=weft_precompiled=off nothing is loaded that it does not name.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    precompiled = ctx.actions.declare_file(ctx.label.name + ".pch")
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        # No times, so that the same headers give the same bytes.
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             ["-fpch-instantiate-templates", "-Xclang", "-fno-pch-timestamp", "-x", "c++-header"],
        source_file = ctx.file.header.path,
        output_file = precompiled.path,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        use_pic = True,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = CPP_COMPILE_ACTION_NAME),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([ctx.file.header], transitive = [context.headers, toolchain.all_files]),
        outputs = [precompiled],
        mnemonic = "CppPrecompile",
        # It names the folders of headers that it was made in: elsewhere these would be read twice.
        execution_requirements = {"no-cache": "1"},
        progress_message = "Precompiling %s" % ctx.file.header.short_path,
    )
    return [
        # Without what deps link.
        cc_common.merge_cc_infos(cc_infos = [
            CcInfo(compilation_context = context),
            CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset([precompiled, ctx.file.header]))),
        ]),
        platform_common.TemplateVariableInfo({ctx.attr.variable: precompiled.path}),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = "`header` as deps' headers make it, for `-include-pch $(variable)`.",
    attrs = {
        "header": attr.label(allow_single_file = True, mandatory = True),
        "variable": attr.string(mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _with(precompiled, variable, rule, name, deps = [], copts = [], **kwargs):
    rule(
        name = name,
        deps = deps + select({
            "//third_party:nothing_precompiled": [],
            "//conditions:default": [precompiled],
        }),
        copts = copts + select({
            "//third_party:nothing_precompiled": [],
            # Files differ from it in -O and in sanitizers, which change no header; that it is up to
            # date is Bazel's to know. Deprecated: libstdc++ silences itself by pragmas, which a
            # precompiled header forgets.
            "//conditions:default": ["-include-pch", "$(%s)" % variable, "-Xclang", "-fno-validate-pch", "-Wno-deprecated-declarations"],
        }),
        toolchains = [precompiled],
        **kwargs
    )

def mlir_library(name, **kwargs):
    """A cc_library whose files include MLIR or the dialect."""
    _with("//dialects/weft/ir:precompiled", "MLIR_PRECOMPILED", native.cc_library, name, **kwargs)

def mlir_test(name, **kwargs):
    """A cc_test of files that include MLIR or the dialect, and GoogleTest."""
    _with("//tests/support:mlir_precompiled", "MLIR_TEST_PRECOMPILED", native.cc_test, name, **kwargs)

def mlir_binary(name, **kwargs):
    """A cc_binary whose files include MLIR or the dialect."""
    _with("//dialects/weft/ir:precompiled", "MLIR_PRECOMPILED", native.cc_binary, name, **kwargs)

def weft_test_library(name, **kwargs):
    """A cc_library of tests that include weft.h and GoogleTest."""
    _with("//tests/support:weft_precompiled", "WEFT_PRECOMPILED", native.cc_library, name, testonly = True, **kwargs)

def weft_test(name, **kwargs):
    """A cc_test of files that include weft.h and GoogleTest."""
    _with("//tests/support:weft_precompiled", "WEFT_PRECOMPILED", native.cc_test, name, **kwargs)

def gtest_test(name, **kwargs):
    """A cc_test of files that include GoogleTest, and neither MLIR nor weft.h."""
    _with("//tests/support:gtest_precompiled", "GTEST_PRECOMPILED", native.cc_test, name, **kwargs)

def plain_library(name, **kwargs):
    """A cc_library of C++ files that include no MLIR."""
    _with("//tools/bazel:standard", "STANDARD_PRECOMPILED", native.cc_library, name, **kwargs)

def plain_binary(name, **kwargs):
    """A cc_binary of C++ files that include no MLIR."""
    _with("//tools/bazel:standard", "STANDARD_PRECOMPILED", native.cc_binary, name, **kwargs)
