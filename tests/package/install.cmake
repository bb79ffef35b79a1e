# Installs Keyway to a fresh prefix, which the other scripts use.
# Needs: BUILD_DIR, PREFIX.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
# A stale file of an earlier run must not hide a missing one.
file(REMOVE_RECURSE "${PREFIX}")
set(ENV{DESTDIR})
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${PREFIX}")
