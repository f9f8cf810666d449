# How lit runs Weft's tests: the tools under test and LLVM's FileCheck and not are on the PATH; each
# test writes below its own %t.
import os

import lit.formats

config.name = "weft"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
here = os.path.dirname(__file__)
config.test_source_root = here
config.test_exec_root = os.path.join(here, "out")
config.environment["PATH"] = os.pathsep.join([os.path.join(here, "bin"), "/usr/lib/llvm-22/bin", os.environ["PATH"]])
for name in ("HOME", "TEST_TMPDIR", "XDG_CACHE_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["WEFT_CACHE_DIR"] = os.path.join(here, "cache")
# Sanitizers (tools/test.sh --sanitizers) instrument the archives that weft-compile links
# executables with; its link command, a user's, names none.
if "WEFT_SANITIZER" in os.environ:
    config.available_features.add("sanitizer")
