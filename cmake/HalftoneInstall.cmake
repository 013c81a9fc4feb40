# cmake --install: headers, the libraries, the modules, the tool, and the files by which pkg-config and
# CMake find them.  They find each other by relative paths, so an installed tree can be moved.

# Each public header compiles alone, in C and in C++.
file(GLOB public_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/halftone/*.h)
set(alone)
foreach(header IN LISTS public_headers)
	get_filename_component(header ${header} NAME)
	foreach(ext IN ITEMS c cc)
		set(one ${CMAKE_BINARY_DIR}/headers/include/${header}.${ext})
		file(CONFIGURE OUTPUT ${one} CONTENT "#include <halftone/${header}>\nextern int ht_alone;\n")
		list(APPEND alone ${one})
	endforeach()
endforeach()
add_library(ht_include_headers OBJECT ${alone})

if(NOT TARGET halftone)
	return()
endif()

# Components are packages of HalftonePackage.cmake.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/halftone)
file(GLOB schemas CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.schema.json)
install(FILES ${schemas} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/halftone COMPONENT tool)
foreach(pair IN ITEMS halftone=library halftone-rt=runtime)
	string(REPLACE = ";" pair ${pair})
	list(GET pair 0 target)
	list(GET pair 1 component)
	install(TARGETS ${target} ${target}_static
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT dev
		ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
get_property(modules GLOBAL PROPERTY HT_MODULES)
foreach(module IN LISTS modules)
	install(TARGETS halftone-${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/halftone COMPONENT library)
endforeach()
if(TARGET halftone-tool)
	install(TARGETS halftone-tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
	set(share ${CMAKE_BINARY_DIR}/share)
	add_custom_command(OUTPUT ${share}/man/man1/halftone.1
		COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:halftone-tool> -DOUT=${share}
			-P ${CMAKE_SOURCE_DIR}/cmake/HalftoneManual.cmake
		DEPENDS halftone-tool ${CMAKE_SOURCE_DIR}/cmake/HalftoneManual.cmake VERBATIM)
	add_custom_target(halftone_manual ALL DEPENDS ${share}/man/man1/halftone.1)
	install(DIRECTORY ${share}/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT tool)
endif()

# From the folder of each package file to the prefix.
file(RELATIVE_PATH HT_PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
file(RELATIVE_PATH HT_CMAKE_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/cmake/halftone /p)
configure_file(cmake/halftone.pc.in halftone.pc @ONLY)
configure_file(cmake/halftone-rt.pc.in halftone-rt.pc @ONLY)
configure_file(cmake/halftone-config.cmake.in halftone-config.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/halftone-config-version.cmake
	COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/halftone.pc ${CMAKE_BINARY_DIR}/halftone-rt.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/halftone-config.cmake
	${CMAKE_BINARY_DIR}/halftone-config-version.cmake
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/halftone)
include(HalftonePackage)
