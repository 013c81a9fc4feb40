# The libraries that Halftone links.  scripts/packages.txt has the names of the Debian packages.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(MD REQUIRED IMPORTED_TARGET libmd)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(ZIP REQUIRED IMPORTED_TARGET libzip)
find_library(SNAPPY_LIBRARY snappy REQUIRED)
find_path(SNAPPY_INCLUDE_DIR snappy-c.h REQUIRED)
add_library(Snappy INTERFACE IMPORTED)
set_target_properties(Snappy PROPERTIES INTERFACE_LINK_LIBRARIES ${SNAPPY_LIBRARY}
	INTERFACE_INCLUDE_DIRECTORIES ${SNAPPY_INCLUDE_DIR})

# LLVM's C API.  The code generator's module has LLVM's static libraries inside, with all their names
# hidden: libtensorflow_framework.so exports LLVM's names too, and a process that has both and libLLVM.so
# fails when it ends.  Programs of the tests that have the code generator inside link libLLVM.so, since
# each would be 50 MB with the static ones.
find_program(LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
foreach(what includedir libdir version)
	execute_process(COMMAND ${LLVM_CONFIG} --${what} OUTPUT_VARIABLE LLVM_${what}
		OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endforeach()
find_library(LLVM_LIBRARY NAMES LLVM-19 LLVM PATHS ${LLVM_libdir} NO_DEFAULT_PATH REQUIRED)
add_library(LLVM INTERFACE IMPORTED)
set_target_properties(LLVM PROPERTIES INTERFACE_LINK_LIBRARIES ${LLVM_LIBRARY}
	INTERFACE_INCLUDE_DIRECTORIES ${LLVM_includedir})
execute_process(COMMAND ${LLVM_CONFIG} --link-static --libs x86codegen passes
	OUTPUT_VARIABLE llvm_static OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(llvm_static)
find_library(ZSTD_LIBRARY zstd REQUIRED)
find_package(ZLIB REQUIRED)
add_library(LLVMStatic INTERFACE IMPORTED)
set_target_properties(LLVMStatic PROPERTIES
	INTERFACE_LINK_DIRECTORIES ${LLVM_libdir}
	INTERFACE_LINK_OPTIONS "-static-libstdc++;-Wl,--gc-sections"
	INTERFACE_LINK_LIBRARIES "${llvm_static};${ZSTD_LIBRARY};ZLIB::ZLIB;${CMAKE_DL_LIBS};m")
set(HALFTONE_LLVM_TOOLS ${LLVM_libdir}/../bin)

# The module for signatures has libcrypto inside with all names hidden, since libtensorflow_framework.so exports those of another
# libcrypto: in a process that imported TensorFlow, keys would be read and signed with by functions of both.  Some systems have
# only the shared library; there signing in such a process fails.
find_library(CRYPTO_ARCHIVE libcrypto.a HINTS ${CRYPTO_LIBDIR})
if(CRYPTO_ARCHIVE)
	add_library(CryptoStatic INTERFACE IMPORTED)
	set_target_properties(CryptoStatic PROPERTIES INTERFACE_LINK_OPTIONS "-Wl,--gc-sections"
		INTERFACE_LINK_LIBRARIES "${CRYPTO_ARCHIVE};${CMAKE_DL_LIBS};Threads::Threads")
else()
	message(STATUS "No libcrypto.a: signing fails in processes that import TensorFlow")
	add_library(CryptoStatic ALIAS PkgConfig::CRYPTO)
endif()

if(HALFTONE_TESTS)
	pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
	pkg_check_modules(MPFR REQUIRED IMPORTED_TARGET mpfr)
endif()

# The libraries that libhalftone-rt and libhalftone link; pkg-config's and CMake's package files say the same to users of the
# static library.
set(HT_RUNTIME_LINKS ${CMAKE_DL_LIBS} PkgConfig::MD Threads::Threads m)
set(HT_LIBRARY_LINKS ${HT_RUNTIME_LINKS} PkgConfig::CJSON PkgConfig::ZIP Snappy ${CMAKE_DL_LIBS})
