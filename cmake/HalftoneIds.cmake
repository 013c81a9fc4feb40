# Hashes of the sources, for the keys of the compile cache: <halftone-ids.h>.
set(ids ${CMAKE_BINARY_DIR}/generated/halftone-ids.h)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
set(sources)
set(folders include base ir kernel frontend choice lower passes precision runtime backend cache api)
foreach(folder IN LISTS folders)
	file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*)
	list(APPEND sources ${files})
endforeach()
# The files that contain the ids are compiled again only when these change.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/ids.stamp BYPRODUCTS ${ids}
	COMMAND ${CMAKE_SOURCE_DIR}/scripts/source-id ${CMAKE_SOURCE_DIR} ${ids} ${LLVM_version}
		${folders}
	COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/generated/ids.stamp
	DEPENDS ${sources} ${CMAKE_SOURCE_DIR}/scripts/source-id
	COMMENT "Hashes of the sources" VERBATIM)
add_custom_target(ht_ids ALL DEPENDS ${CMAKE_BINARY_DIR}/generated/ids.stamp)

# The files of a folder that include the header.
function(ht_uses_ids)
	set_source_files_properties(${ARGN} PROPERTIES
		INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/generated
		OBJECT_DEPENDS ${CMAKE_BINARY_DIR}/generated/halftone-ids.h)
endfunction()
