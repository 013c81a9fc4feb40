# Tests.  Exit code 77 means that a test was skipped; its last line of output says why.

# No test has a time limit of its own; one that takes this long (in seconds) hangs.
set(HALFTONE_TEST_HANGS 3600)

# If the costs of this machine are unknown, each process measures its rates, which takes longer than most
# tests, and its decisions depend on the results.  So the tests treat such a machine as the nearest one with a
# table of costs (docs/optimal.md); cli.rates tests the measurement.
set(HALFTONE_TEST_HOST)
if(EXISTS /proc/cpuinfo)
	file(STRINGS /proc/cpuinfo vendor REGEX "^vendor_id.*AuthenticAMD" LIMIT_COUNT 1)
	file(STRINGS /proc/cpuinfo level REGEX "^flags.* avx512_bf16( |$)" LIMIT_COUNT 1)
	if(vendor AND level)
		set(HALFTONE_TEST_HOST znver4)
	endif()
endif()

# ht_add_test(NAME COMMAND ... [LABELS ...] [SERIAL]): adds a test that runs at the top of the tree, with
# SERIAL alone on the machine.  Tests with label `slow` or `install` are left out under sanitizers.
function(ht_add_test name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "" "COMMAND;LABELS")
	add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${HALFTONE_TEST_HANGS}
		LABELS "${arg_LABELS}" RUN_SERIAL "${arg_SERIAL}" ENVIRONMENT
		"HALFTONE_BUILD=${CMAKE_BINARY_DIR};\
HALFTONE_CACHE_MODE=off;\
HALFTONE_HOST=${HALFTONE_TEST_HOST};\
HALFTONE_SANITIZE=${HALFTONE_SANITIZE};\
HALFTONE_LLVM_TOOLS=${HALFTONE_LLVM_TOOLS};\
HALFTONE_BACKEND=${CMAKE_BINARY_DIR}/lib/halftone/halftone-backend.so")
endfunction()
