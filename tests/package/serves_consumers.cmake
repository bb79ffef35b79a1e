# Builds and runs the programs of this folder against the installed package, with one compiler.
# Needs: PREFIX, SCRATCH_DIR, GENERATOR, COMPILER, BUILD_COMPILER, CXX_FLAGS, IS_SHARED.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
find_program(compiler_path ${COMPILER})
if(NOT compiler_path)
  skip("${COMPILER} is not installed, so nobody knows whether the package serves its users")
endif()
# A sanitized library needs a program with the same sanitizer, of the same compiler.
cmake_path(GET BUILD_COMPILER FILENAME build_compiler_name)
if(CXX_FLAGS MATCHES "-fsanitize" AND NOT build_compiler_name STREQUAL COMPILER)
  skip("the library has sanitizers of ${build_compiler_name}, which ${COMPILER} cannot link")
endif()

file(REMOVE_RECURSE "${SCRATCH_DIR}")
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${SCRATCH_DIR}" -G "${GENERATOR}"
  "-DCMAKE_PREFIX_PATH=${PREFIX}"
  "-DCMAKE_CXX_COMPILER=${compiler_path}"
  "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
  "-DIS_SHARED=${IS_SHARED}"
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run("${CMAKE_COMMAND}" --build "${SCRATCH_DIR}" --parallel 2)
run("${CMAKE_CTEST_COMMAND}" --test-dir "${SCRATCH_DIR}" --output-on-failure --no-tests=error)
