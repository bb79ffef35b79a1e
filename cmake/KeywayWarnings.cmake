# keyway_warnings: the warnings for Keyway's own code.
#
# Link it only as `PRIVATE $<BUILD_INTERFACE:keyway_warnings>`: so it is neither passed on to the targets of a
# project that contains this one nor exported with the installed package.

add_library(keyway_warnings INTERFACE)
target_compile_options(keyway_warnings INTERFACE
  -Wall
  -Wextra
  -Wpedantic
  -Wshadow
  -Woverloaded-virtual
  # Options are structs with defaults, written {.limit = 4}: what is left out is meant.
  -Wno-missing-field-initializers
  # The locks in src/base are annotated; -beta checks KEYWAY_ACQUIRED_AFTER.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety-beta>
  # GCC 12 sees overlapping copies inside std::string's operator+, and parameters of coroutines that nobody set,
  # where there are none.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-maybe-uninitialized>
  $<$<BOOL:${KEYWAY_WARNINGS_AS_ERRORS}>:-Werror>)
