# Each file of compile_errors/ names in its first line what the compiler's message must contain ("expect first": what its first
# error must), or "compiles". Its second line may add flags.
# Needs: SOURCES, their folder; INCLUDE_DIR; CXX_COMPILER; CXX_FLAGS.
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")
file(GLOB sources "${SOURCES}/*.cc")
foreach(source IN LISTS sources)
  file(STRINGS "${source}" first_lines LIMIT_COUNT 2)
  list(GET first_lines 0 first_line)
  list(GET first_lines 1 second_line)
  string(REGEX REPLACE "^// expect( first)?: " "" expected "${first_line}")
  set(own_flags)
  if(second_line MATCHES "^// flags: (.*)")
    separate_arguments(own_flags UNIX_COMMAND "${CMAKE_MATCH_1}")
  endif()
  execute_process(
    COMMAND "${CXX_COMPILER}" ${flags} -std=c++20 ${own_flags} -fsyntax-only "-I${INCLUDE_DIR}" "${source}"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(first_line MATCHES "^// expect first: ")
    string(REGEX MATCH "error:[^\n]*" output "${output}")
  endif()
  if(expected STREQUAL "compiles")
    if(NOT status EQUAL 0)
      message(SEND_ERROR "${source} does not compile:\n${output}")
    endif()
  elseif(status EQUAL 0)
    message(SEND_ERROR "${source} compiles")
  elseif(NOT output MATCHES "${expected}")
    message(SEND_ERROR "${source}: the message does not contain \"${expected}\":\n${output}")
  elseif(output MATCHES "error: no type named")
    message(SEND_ERROR "${source}: the message tells of an implementation detail:\n${output}")
  endif()
endforeach()

# In an older mode each public header reports that Keyway needs C++20, and stops there.
file(GLOB headers "${INCLUDE_DIR}/keyway/*.h" "${INCLUDE_DIR}/keyway/testing/*.h")
list(REMOVE_ITEM headers "${INCLUDE_DIR}/keyway/version.h")  # macros only
foreach(header IN LISTS headers)
  execute_process(
    COMMAND "${CXX_COMPILER}" ${flags} -std=c++17 -fsyntax-only "-I${INCLUDE_DIR}" -x c++ -include "${header}" /dev/null
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX MATCHALL "error:" errors "${output}")
  list(LENGTH errors count)
  if(status EQUAL 0 OR NOT output MATCHES "Keyway needs C\\+\\+20" OR count GREATER 2)
    message(SEND_ERROR "${header} under C++17: ${count} errors:\n${output}")
  endif()
endforeach()
