# Installs Keyway to a fresh prefix, then configures, builds and runs tests/consumer against it.
# Needs: BUILD_DIR, SCRATCH_DIR, CONSUMER_DIR, GENERATOR, CXX_COMPILER, CXX_FLAGS.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# A stale file of an earlier run must not hide one that is no longer installed.
file(REMOVE_RECURSE "${SCRATCH_DIR}")
set(ENV{DESTDIR})

run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${SCRATCH_DIR}/prefix")
# The compiler flags are passed on because a sanitized library needs a sanitized program.
run("${CMAKE_COMMAND}" -S "${CONSUMER_DIR}" -B "${SCRATCH_DIR}/build" -G "${GENERATOR}"
  "-DCMAKE_PREFIX_PATH=${SCRATCH_DIR}/prefix"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run("${CMAKE_COMMAND}" --build "${SCRATCH_DIR}/build")
run("${SCRATCH_DIR}/build/consumer")
