"""Tests that run once on each backend."""

def weft_backend_test(name, backends = ["cpu", "reference"], env = {}, deps = [], **kwargs):
    """NAME_cpu and NAME_reference: a cc_test of the public API, with GoogleTest.

    The interpreter compiles in no time and specifies the values, the CPU backend is what users run. Neither has a disk cache, so that a
    run does not depend on earlier ones.
    """
    for backend in backends:
        all_env = {
            "WEFT_BACKEND": backend,
            "WEFT_CACHE_DIR": "off",
        }
        all_env.update(env)
        native.cc_test(
            name = name + "_" + backend,
            env = all_env,
            deps = ["//frontend", "//tests/support:compiles", "//tests/support:errors", "//third_party:gtest_main"] + deps,
            **kwargs
        )
