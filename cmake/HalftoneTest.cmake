# Tests.  Exit code 77 means skipped; the test then says why on its last line.

# ht_add_test(NAME COMMAND ... [LABELS ...] [TIMEOUT s]): runs at the top of the tree.
# Labels: `python` needs build/venv; `slow` is left out under sanitizers; `shared` uses the data of
# $HALFTONE_SHARED; `fuzz` replays a corpus.
function(ht_add_test name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;LABELS")
	if(NOT arg_TIMEOUT)
		set(arg_TIMEOUT 300)
	endif()
	add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT}
		LABELS "${arg_LABELS}" ENVIRONMENT "HALFTONE_BUILD=${CMAKE_BINARY_DIR};\
HALFTONE_LLVM_TOOLS=${HALFTONE_LLVM_TOOLS};\
HALFTONE_BACKEND=${CMAKE_BINARY_DIR}/lib/halftone/halftone-backend.so")
endfunction()

# ht_add_python_test(NAME SCRIPT ARGS... [LABELS ...] [TIMEOUT s]): SCRIPT in the environment
# build/venv/tests of tests/requirements.txt, or $HALFTONE_PYTHON; skipped where there is neither.
function(ht_add_python_test name script)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "LABELS")
	if(NOT arg_TIMEOUT)
		set(arg_TIMEOUT 600)
	endif()
	ht_add_test(${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/tools/in-venv ${script}
		${arg_UNPARSED_ARGUMENTS} LABELS python ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
endfunction()
