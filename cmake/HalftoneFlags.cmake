# Language, warnings, visibility and sanitizers, the same for every target.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(HALFTONE_SANITIZE)
	set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g")
else()
	set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
endif()

add_compile_definitions(_GNU_SOURCE)
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)

add_compile_options(
	-Wall -Wextra -Wpedantic -Wshadow
	$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
	$<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
	$<$<COMPILE_LANGUAGE:C>:-Wvla>
	# gcc and clang give the same bits: neither contracts a*b+c by itself.
	-ffp-contract=off
	-fno-math-errno
	# Builds in different folders give equal bytes.
	-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(HALFTONE_WERROR)
	add_compile_options(-Werror)
endif()

if(HALFTONE_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
		message(FATAL_ERROR "HALFTONE_FUZZ needs clang: use --preset fuzz")
	endif()
	add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(HALFTONE_SANITIZE)
	add_compile_options(-fsanitize=${HALFTONE_SANITIZE} -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
	# This check looks for a type's hash in front of each function that is called through a pointer, and
	# generated code has none.
	if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
		add_compile_options(-fno-sanitize=function)
	endif()
	add_link_options(-fsanitize=${HALFTONE_SANITIZE})
	# GNU ld takes a second for each program with clang's sanitizers, lld a quarter of a second.
	find_program(HALFTONE_LLD ld.lld-19)
	if(HALFTONE_LLD AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
		add_link_options(--ld-path=${HALFTONE_LLD})
	endif()
endif()
