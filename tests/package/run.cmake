# What the scripts of this folder share.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Ends the script; the test counts as skipped, not as passed.
macro(skip reason)
  message("SKIPPED: ${reason}")
  return()
endmacro()
