# Fails when a C++ file stands in the tree but in no source list, where it would silently never be built.
# Needs: ROOT, the project's folder; LISTED, a file that names the listed files, one per line.
file(STRINGS "${LISTED}" listed)
file(GLOB_RECURSE present
  "${ROOT}/include/*.h" "${ROOT}/src/*.cc" "${ROOT}/examples/*.cc")
list(REMOVE_ITEM present ${listed})
if(present)
  list(JOIN present "\n  " present)
  message(FATAL_ERROR "In no source list (add it to its folder's CMakeLists.txt; a public header to the "
    "list of the room that implements it):\n  ${present}")
endif()
