"""Tests that run once on each backend."""

load("//tools/bazel:precompiled.bzl", "weft_test_library")

def weft_backend_test(name, srcs = [], cases = None, backends = ["cpu", "reference"], env = {}, deps = [], **kwargs):
    """NAME_cpu and NAME_reference: a cc_test of the public API, with GoogleTest, compiled once.

    The interpreter compiles in no time and specifies the values, the CPU backend is what users run. Neither has a disk cache, so that a
    run does not depend on earlier ones. `cases`: the name of another such test, to run its files, in place of srcs.
    """
    if not cases:
        weft_test_library(
            name = name + "_cases",
            srcs = srcs,
            deps = ["//frontend", "//tests/support:compiles", "//tests/support:errors", "//third_party:gtest_main"] + deps,
            alwayslink = True,
            visibility = ["//backends:__subpackages__"],
        )
    for backend in backends:
        all_env = {
            "WEFT_BACKEND": backend,
            "WEFT_CACHE_DIR": "off",
        }
        all_env.update(env)
        native.cc_test(
            name = name + "_" + backend,
            env = all_env,
            deps = [":%s_cases" % (cases or name)] + (deps if cases else []),
            **kwargs
        )
