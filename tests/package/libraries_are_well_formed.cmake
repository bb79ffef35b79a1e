# Looks into the installed libraries.
# Needs: PREFIX, LIBDIR, SCRATCH_DIR, IS_SHARED, CXX_COMPILER, CXX_FLAGS, SOVERSION.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${SCRATCH_DIR}")
file(MAKE_DIRECTORY "${SCRATCH_DIR}")
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")

if(NOT IS_SHARED)
  # Static libraries can become part of a shared one: the linker refuses code that is not position independent.
  file(GLOB archives "${PREFIX}/${LIBDIR}/libkeyway_*.a")
  if(NOT archives)
    message(FATAL_ERROR "no static libraries in ${PREFIX}/${LIBDIR}")
  endif()
  run("${CXX_COMPILER}" ${flags} -shared -Wl,-z,text -Wl,--whole-archive ${archives} -Wl,--no-whole-archive
    -o "${SCRATCH_DIR}/all.so")
  return()
endif()

find_program(readelf readelf REQUIRED)
find_program(nm nm REQUIRED)
file(GLOB libraries "${PREFIX}/${LIBDIR}/libkeyway_*.so")
if(NOT libraries)
  message(FATAL_ERROR "no shared libraries in ${PREFIX}/${LIBDIR}")
endif()
set(all_variables "")
foreach(library IN LISTS libraries)
  cmake_path(GET library FILENAME name)
  execute_process(COMMAND "${readelf}" -d "${library}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  if(NOT dynamic MATCHES "soname: \\[${name}\\.${SOVERSION}\\]")
    message(SEND_ERROR "${name}: the soname is not ${name}.${SOVERSION}:\n${dynamic}")
  endif()
  # They find each other wherever they are; no folder of this machine is in them.
  string(REGEX MATCHALL "R(UN)?PATH[^\n]*" rpath "${dynamic}")
  if(NOT rpath MATCHES "^RUNPATH[^;]*: \\[\\$ORIGIN\\]$")
    message(SEND_ERROR "${name} has another rpath than $ORIGIN: ${rpath}")
  endif()

  # A variable that two libraries define would exist twice in a process that loads them apart from each other.
  # Objects with equal copies are allowed: constants (kName), vtables, type information, the hash's seed.
  execute_process(COMMAND "${nm}" --dynamic --demangle --defined-only "${library}"
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [BDVu] [^\n]*keyway::[^\n]*" variables "${symbols}")
  list(TRANSFORM variables REPLACE "^[0-9a-f]+ . " "")
  list(FILTER variables EXCLUDE REGEX "^(vtable|VTT|typeinfo|typeinfo name) for |hash_key[(].*::seed$|::k[A-Z][A-Za-z]*$")
  list(REMOVE_DUPLICATES variables)
  message("${name}: ${variables}")
  list(APPEND all_variables ${variables})
endforeach()
set(seen "")
foreach(variable IN LISTS all_variables)
  if(variable IN_LIST seen)
    message(SEND_ERROR "defined by more than one library: ${variable}")
  endif()
  list(APPEND seen "${variable}")
endforeach()
if(NOT "keyway::detail::this_thread_context" IN_LIST seen)
  message(SEND_ERROR "the symbols were not understood: keyway::detail::this_thread_context is not among them")
endif()
