# Compiles and links programs with what pkg-config prints.
# Needs: PREFIX, LIBDIR, SCRATCH_DIR, CXX_COMPILER, CXX_FLAGS, IS_SHARED, VERSION.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
find_program(pkg_config NAMES pkg-config pkgconf)
if(NOT pkg_config)
  skip("pkg-config is not installed, so nobody knows whether the .pc files are right")
endif()
file(REMOVE_RECURSE "${SCRATCH_DIR}")
file(MAKE_DIRECTORY "${SCRATCH_DIR}")
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")

function(ask variable)
  execute_process(COMMAND "${pkg_config}" ${ARGN} OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  message("${answer}")
  separate_arguments(answer UNIX_COMMAND "${answer}")
  set(${variable} ${answer} PARENT_SCOPE)
endfunction()

# build(<program> <package>...): links it twice, the second time with --static, and runs both.
function(build program)
  ask(version --modversion ${ARGV1})
  ask(cflags --cflags ${ARGN})
  ask(libs --libs ${ARGN})
  ask(static_libs --static --libs ${ARGN})
  set(output "${SCRATCH_DIR}/${program}")
  run("${CXX_COMPILER}" ${flags} -std=c++20 "-DFOUND_VERSION=\"${version}\"" ${cflags}
    -c "${CMAKE_CURRENT_LIST_DIR}/consumers/${program}.cc" -o "${output}.o")
  run("${CXX_COMPILER}" ${flags} "${output}.o" -o "${output}" ${libs})
  run("${CXX_COMPILER}" ${flags} "${output}.o" -o "${output}_static" ${static_libs})
  run("${output}")
  run("${output}_static")
endfunction()

if(IS_SHARED)
  set(ENV{LD_LIBRARY_PATH} "${PREFIX}/${LIBDIR}")
endif()

# pkg-config sees only Keyway here: these components need no other package.
set(ENV{PKG_CONFIG_LIBDIR} "${PREFIX}/${LIBDIR}/pkgconfig")
build(base keyway-base)
build(one_per_process keyway-groups keyway-locks)
build(serial keyway-serial)
build(runtime keyway-runtime)
build(testing keyway-testing)

unset(ENV{PKG_CONFIG_LIBDIR})
set(ENV{PKG_CONFIG_PATH} "${PREFIX}/${LIBDIR}/pkgconfig")
build(stream keyway-stream)
build(sources_file keyway-sources_file)
build(dedup keyway-dedup)
build(everything keyway keyway-testing)
foreach(component sources store)
  ask(libs --libs keyway-${component})
endforeach()

# The files say where they are, not where they were meant to be.
ask(prefix --variable=prefix keyway)
cmake_path(NORMAL_PATH prefix)
string(REGEX REPLACE "/$" "" prefix "${prefix}")
if(NOT prefix STREQUAL PREFIX)
  message(SEND_ERROR "keyway.pc has the prefix ${prefix}, not ${PREFIX}")
endif()
