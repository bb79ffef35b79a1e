# Fails when a page of docs/ is not what the command itself prints.
# Needs: ROOT, the project's folder; PROGRAM, the program keyway.
foreach(command run batch exec dead config)
  execute_process(COMMAND "${PROGRAM}" man ${command} --markdown
    OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  file(READ "${ROOT}/docs/keyway-${command}.md" stored)
  if(NOT printed STREQUAL stored)
    message(FATAL_ERROR "docs/keyway-${command}.md is not what `keyway man ${command} --markdown` prints. "
      "Write it anew with: make docs")
  endif()
endforeach()
