# Headers that many files include do not bring heavy standard headers with them.
# Needs: INCLUDE_DIR; SCRATCH_DIR; CXX_COMPILER; CXX_FLAGS.
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")
set(source "${SCRATCH_DIR}/light_header.cc")
file(WRITE "${source}" "#include \"keyway/group_executor.h\"\n")
execute_process(
  COMMAND "${CXX_COMPILER}" ${flags} -std=c++20 -M "-I${INCLUDE_DIR}" "${source}"
  OUTPUT_VARIABLE dependencies COMMAND_ERROR_IS_FATAL ANY)
foreach(header future iostream regex)
  if(dependencies MATCHES "/${header}[ \n]")
    message(SEND_ERROR "keyway/group_executor.h includes <${header}>")
  endif()
endforeach()
