# A folder of the source tree as a library, and the headers that it may include.
#
#   ht_folder(passes USES base ir lower DOORS passes.h SOURCES fold.c prune.c LINK PkgConfig::CJSON)
#
# makes the static library ht_passes, and compiles each header of the folder by itself.  The build checks
# that the folder's files include only headers of the folders in USES, and name no instruction set where
# they should ask for a machine's capabilities, nor an op where they should ask for its traits.  If DOORS
# is given, other folders may include only these headers.  Without SOURCES there is no library yet, but
# the headers are checked all the same.  RUNTIME lists further sources, of which libhalftone-rt consists.
# RUNTIME_ALONE lists sources that only libhalftone-rt has: they define what SOURCES define for libhalftone.

set(HT_CHECK_INCLUDES ${CMAKE_SOURCE_DIR}/scripts/check-includes)
set(HT_CHECK_MACHINE ${CMAKE_SOURCE_DIR}/scripts/check-machine)
set(HT_CHECK_OPS ${CMAKE_SOURCE_DIR}/scripts/check-ops)

# Objects of a folder for libhalftone-rt, which is small (tests/install/run has the limit).  It leaves out the functions of these
# files that it does not call.  Debuggers and profilers unwind by .debug_frame, which is not loaded.
function(ht_runtime_objects target name sources)
	add_library(${target} OBJECT ${sources})
	target_link_libraries(${target} PRIVATE ht_${name}_uses)
	if(HALFTONE_SANITIZE)
		set(tables "") # sanitizers need them to print stacks
	else()
		set(tables -fno-asynchronous-unwind-tables)
	endif()
	target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections ${tables}
		$<$<IN_LIST:${name},api;runtime;base;image>:-Os>)
endfunction()

function(ht_folder name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;DOORS;SOURCES;RUNTIME;RUNTIME_ALONE;LINK")
	if(arg_UNPARSED_ARGUMENTS)
		message(FATAL_ERROR "ht_folder(${name}): unknown ${arg_UNPARSED_ARGUMENTS}")
	endif()
	add_library(ht_${name}_uses INTERFACE)
	set_property(GLOBAL PROPERTY HT_DOORS_${name} ${arg_DOORS})
	foreach(used IN LISTS arg_USES)
		if(NOT TARGET ht_${used}_uses)
			message(FATAL_ERROR "ht_folder(${name}): ${used} does not stand below it")
		endif()
		if(TARGET ht_${used})
			target_link_libraries(ht_${name}_uses INTERFACE ht_${used})
		endif()
	endforeach()
	target_link_libraries(ht_${name}_uses INTERFACE ${arg_LINK})
	set(runtime)
	if(arg_RUNTIME)
		ht_runtime_objects(ht_${name}_rt ${name} "${arg_RUNTIME}")
		set(runtime $<TARGET_OBJECTS:ht_${name}_rt>)
		set_property(GLOBAL APPEND PROPERTY HT_RUNTIME_OBJECTS ${runtime})
	endif()
	if(arg_RUNTIME_ALONE)
		ht_runtime_objects(ht_${name}_rt_alone ${name} "${arg_RUNTIME_ALONE}")
		set_property(GLOBAL APPEND PROPERTY HT_RUNTIME_ALONE_OBJECTS $<TARGET_OBJECTS:ht_${name}_rt_alone>)
	endif()
	if(arg_SOURCES OR runtime)
		add_library(ht_${name} STATIC ${arg_SOURCES} ${runtime})
		set_target_properties(ht_${name} PROPERTIES LINKER_LANGUAGE C)
		target_link_libraries(ht_${name} PUBLIC ht_${name}_uses)
		set_property(GLOBAL APPEND PROPERTY HT_FOLDERS ${name})
	endif()
	ht_check_folder(${name} "${arg_USES}")
endfunction()

function(ht_check_folder name uses)
	file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
	file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.[ch])
	set(alone)
	foreach(header IN LISTS headers)
		file(RELATIVE_PATH header ${CMAKE_SOURCE_DIR} ${header})
		set(one ${CMAKE_BINARY_DIR}/headers/${header}.c)
		file(CONFIGURE OUTPUT ${one} CONTENT "#include \"${header}\"\nextern int ht_alone;\n")
		list(APPEND alone ${one})
	endforeach()
	# The builds without sanitizers tell whether a header stands alone.
	if(alone AND NOT HALFTONE_SANITIZE)
		add_library(ht_${name}_headers OBJECT ${alone})
		target_link_libraries(ht_${name}_headers PRIVATE ht_${name}_uses)
	endif()
	set(allowed)
	foreach(used IN LISTS uses)
		get_property(doors GLOBAL PROPERTY HT_DOORS_${used})
		if(doors)
			list(JOIN doors "," doors)
			string(APPEND used "=${doors}")
		endif()
		list(APPEND allowed ${used})
	endforeach()
	set(stamp ${CMAKE_BINARY_DIR}/headers/${name}.stamp)
	add_custom_command(OUTPUT ${stamp}
		COMMAND ${HT_CHECK_INCLUDES} ${CMAKE_SOURCE_DIR} ${name} ${allowed}
		COMMAND ${HT_CHECK_MACHINE} ${CMAKE_SOURCE_DIR} ${name}
		COMMAND ${HT_CHECK_OPS} ${CMAKE_SOURCE_DIR} ${name}
		COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
		DEPENDS ${files} ${HT_CHECK_INCLUDES} ${HT_CHECK_MACHINE} ${HT_CHECK_OPS}
			${CMAKE_SOURCE_DIR}/scripts/op-files ${CMAKE_SOURCE_DIR}/ir/ops.def
		COMMENT "Includes, machines and ops of ${name}/" VERBATIM)
	add_custom_target(check_includes_${name} ALL DEPENDS ${stamp})
endfunction()

# A module of a folder's objects, which the library loads by name; it exports only `symbol`.  LINK names
# static libraries that replace shared ones of the folder.
function(ht_module folder symbol)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LINK")
	if(NOT TARGET ht_${folder})
		return()
	endif()
	add_library(halftone-${folder} MODULE $<TARGET_OBJECTS:ht_${folder}>)
	target_link_libraries(halftone-${folder} PRIVATE ${arg_LINK} ht_${folder}_uses)
	set(exports ${CMAKE_CURRENT_BINARY_DIR}/exports.map)
	file(CONFIGURE OUTPUT ${exports} CONTENT "{ global: ${symbol}; local: *; };\n")
	target_link_options(halftone-${folder} PRIVATE -Wl,--version-script=${exports}
		-Wl,--exclude-libs,ALL -Wl,--as-needed)
	set_property(GLOBAL APPEND PROPERTY HT_MODULES ${folder})
	set(language C)
	if(arg_LINK) # C++ libraries need the C++ linker
		set(language CXX)
	endif()
	set_target_properties(halftone-${folder} PROPERTIES PREFIX "" LINKER_LANGUAGE ${language}
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/halftone)
endfunction()

# The shared library lib${name}, and the target ${name}_static, from the same objects.
function(ht_library name objects links)
	foreach(kind IN ITEMS shared static)
		string(TOUPPER ${kind} type)
		set(target ${name})
		if(kind STREQUAL "static")
			set(target ${name}_static)
		endif()
		add_library(${target} ${type} ${objects})
		set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C
			LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
			ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
		target_include_directories(${target} INTERFACE
			$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
		target_link_libraries(${target} PRIVATE ${links})
	endforeach()
	set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${HALFTONE_ABI})
	target_link_options(${name} PRIVATE -Wl,--as-needed -Wl,--gc-sections)
	if(NOT HALFTONE_SANITIZE) # the program contains the sanitizer's run time
		target_link_options(${name} PRIVATE -Wl,--no-undefined)
	endif()
endfunction()

# Called once all folders are known: makes libhalftone of all of them except the modules, libhalftone-rt of
# their RUNTIME sources, and ht_internal, with which unit tests reach functions that libhalftone hides.
function(ht_finish)
	get_property(folders GLOBAL PROPERTY HT_FOLDERS)
	get_property(modules GLOBAL PROPERTY HT_MODULES)
	get_property(runtime GLOBAL PROPERTY HT_RUNTIME_OBJECTS)
	get_property(alone GLOBAL PROPERTY HT_RUNTIME_ALONE_OBJECTS)
	set(objects ${runtime})
	add_library(ht_internal INTERFACE)
	foreach(name IN LISTS folders)
		target_link_libraries(ht_internal INTERFACE ht_${name})
		if(NOT name IN_LIST modules)
			list(APPEND objects $<TARGET_OBJECTS:ht_${name}>)
		endif()
	endforeach()
	if(NOT TARGET ht_api)
		return()
	endif()
	ht_library(halftone "${objects}" "${HT_LIBRARY_LINKS}")
	# Hides only Halftone's own names, not those that the linker makes for the section of aot/runner.c.
	set(exports ${CMAKE_BINARY_DIR}/halftone.map)
	file(CONFIGURE OUTPUT ${exports} CONTENT "{ global: ht_*; __jit_debug_*; local: *; };\n")
	target_link_options(halftone PRIVATE -Wl,--version-script=${exports})
	ht_library(halftone-rt "${runtime};${alone}" "${HT_RUNTIME_LINKS}")
	# Lets code and read-only data share pages; otherwise each begins a page, with padding at its end.
	target_link_options(halftone-rt PRIVATE -Wl,-z,noseparate-code)
endfunction()

# The command line tool, build/NAME.  It uses only the public headers and libhalftone.
function(ht_tool name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
	add_library(ht_cli_uses INTERFACE)
	ht_check_folder(cli "")
	if(arg_SOURCES)
		add_executable(${name}-tool ${arg_SOURCES})
		target_link_libraries(${name}-tool PRIVATE halftone ${arg_LINK})
		set_target_properties(${name}-tool PROPERTIES OUTPUT_NAME ${name}
			RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
			INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
	endif()
endfunction()

# A program that is not installed, linked to the library's internal functions.
function(ht_program name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
	add_executable(${name} ${arg_SOURCES})
	target_link_libraries(${name} PRIVATE ht_internal ${arg_LINK})
endfunction()

# A program that is not installed, linked to the public library.
function(ht_example name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
	add_executable(${name} ${arg_SOURCES})
	target_link_libraries(${name} PRIVATE halftone ${arg_LINK})
endfunction()
