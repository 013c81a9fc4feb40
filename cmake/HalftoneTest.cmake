# Tests.  Exit code 77 means skipped; the test then says why on its last line.

# No test has a time limit; one that takes this long (seconds) hangs.
set(HALFTONE_TEST_HANGS 3600)

# ht_add_test(NAME COMMAND ... [LABELS ...] [SERIAL]): runs at the top of the tree;
# with SERIAL alone on the machine.  Labels: `slow` and `install` are left out under sanitizers.
function(ht_add_test name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "" "COMMAND;LABELS")
	add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${HALFTONE_TEST_HANGS}
		LABELS "${arg_LABELS}" RUN_SERIAL "${arg_SERIAL}" ENVIRONMENT
		"HALFTONE_BUILD=${CMAKE_BINARY_DIR};\
HALFTONE_CACHE_MODE=off;\
HALFTONE_LLVM_TOOLS=${HALFTONE_LLVM_TOOLS};\
HALFTONE_BACKEND=${CMAKE_BINARY_DIR}/lib/halftone/halftone-backend.so")
endfunction()
