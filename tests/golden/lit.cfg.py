# Golden tests: a .hir or .test file contains its RUN lines, and the expected outputs are files
# beside it.  Each line runs in bash with pipefail.  On the path are halftone (of $HALFTONE_BUILD),
# FileCheck, not, and tests/tools with `same FILE`, which compares its input with FILE, or rewrites
# FILE if HALFTONE_BLESS=1.  A test that shows paths starts with `cd %S &&`.  Files in Inputs/ are
# no tests.
import os

import lit.formats

here = os.path.dirname(os.path.abspath(__file__))
build = os.path.abspath(os.environ["HALFTONE_BUILD"])

config.name = "golden"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".hir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = here
config.test_exec_root = os.path.join(build, "tests", "golden")
config.environment["PATH"] = os.pathsep.join(
    [build, os.path.join(here, "..", "tools"), os.environ["HALFTONE_LLVM_TOOLS"], os.environ["PATH"]]
)
config.environment["LC_ALL"] = "C.UTF-8"
for name in os.environ:
    if name.startswith(("HALFTONE_", "ASAN_", "UBSAN_", "LSAN_")):
        config.environment[name] = os.environ[name]
# Reports name kernels' methods, which depend on the target.
config.environment["HALFTONE_TARGET"] = "x86-64"
