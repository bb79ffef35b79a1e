# Headers that many files include do not bring heavy standard headers with them.
# Needs: INCLUDE_DIR; SCRATCH_DIR; CXX_COMPILER; CXX_FLAGS.
#
# <map> is allowed: GroupPolicy and PipelineOptions have maps that users fill. <ostream> cannot be kept out, since
# libstdc++ includes it from <memory> and <chrono>; but no header of Keyway asks for it.
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")
set(source "${SCRATCH_DIR}/light_header.cc")
foreach(name group_executor serial_dispatcher key_locks pipeline task thread_pool)
  file(WRITE "${source}" "#include \"keyway/${name}.h\"\n")
  execute_process(
    COMMAND "${CXX_COMPILER}" ${flags} -std=c++20 -M "-I${INCLUDE_DIR}" "${source}"
    OUTPUT_VARIABLE dependencies COMMAND_ERROR_IS_FATAL ANY)
  foreach(header future iostream fstream regex filesystem deque list set queue random)
    if(dependencies MATCHES "/c[+][+]/[^ ]*/${header}[ \n]")
      message(SEND_ERROR "keyway/${name}.h includes <${header}>")
    endif()
  endforeach()
endforeach()

file(GLOB_RECURSE headers "${INCLUDE_DIR}/keyway/*.h")
foreach(header IN LISTS headers)
  file(STRINGS "${header}" streams REGEX "^#include <(ostream|istream|iostream|sstream|fstream|iomanip|format)>")
  if(streams)
    message(SEND_ERROR "${header} has ${streams}; <iosfwd> is enough for a declaration")
  endif()
endforeach()
