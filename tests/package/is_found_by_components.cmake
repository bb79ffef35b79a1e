# Calls find_package() in ways that can and cannot be served: see find/. Then the same where only a part was built, by a
# project that contains Keyway on a machine without SQLite and simdjson.
# Needs: PREFIX, SCRATCH_DIR, SOURCE_DIR, GENERATOR, CXX_COMPILER, VERSION, IS_SHARED.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${SCRATCH_DIR}")
set(common -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
set(ENV{DESTDIR})

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/find" -B "${SCRATCH_DIR}/find" ${common}
  "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DVERSION=${VERSION}" -DBUILT=all -DIS_SHARED=${IS_SHARED})

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/parent" -B "${SCRATCH_DIR}/parent" ${common}
  "-DKEYWAY_SOURCE_DIR=${SOURCE_DIR}"
  -DCMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON -DCMAKE_DISABLE_FIND_PACKAGE_simdjson=ON)
# Nobody links these libraries, so they need not be built.
foreach(room base lanes runtime groups locks)
  file(TOUCH "${SCRATCH_DIR}/parent/keyway/src/${room}/libkeyway_${room}.a")
endforeach()
run("${CMAKE_COMMAND}" --install "${SCRATCH_DIR}/parent" --prefix "${SCRATCH_DIR}/part")
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/find" -B "${SCRATCH_DIR}/find_part" ${common}
  "-DCMAKE_PREFIX_PATH=${SCRATCH_DIR}/part" "-DVERSION=${VERSION}" -DBUILT=part)

# Configured by hand, without a build type: a Release build, which a warning of a newer compiler does not end.
run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${SCRATCH_DIR}/by_hand" ${common} -DKEYWAY_COMPONENTS=base)
foreach(setting CMAKE_BUILD_TYPE:STRING=Release KEYWAY_WARNINGS_AS_ERRORS:BOOL=OFF)
  file(STRINGS "${SCRATCH_DIR}/by_hand/CMakeCache.txt" found REGEX "^${setting}$")
  if(NOT found)
    message(SEND_ERROR "configured by hand, Keyway does not have ${setting}")
  endif()
endforeach()

# expect_refusal(<message> <argument>...): configuring Keyway fails with the message.
function(expect_refusal message)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${SCRATCH_DIR}/refused" ${common} ${ARGN}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors)
  # CMake breaks long lines.
  string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
  if(status EQUAL 0 OR NOT errors MATCHES "${message}")
    message(SEND_ERROR "${ARGN} should be refused with \"${message}\", but ended with ${status}: ${errors}")
  endif()
  file(REMOVE_RECURSE "${SCRATCH_DIR}/refused")
endfunction()
expect_refusal("there is no component \"grups\". The components: base, " "-DKEYWAY_COMPONENTS=grups")
expect_refusal("the program, .* need all components" "-DKEYWAY_COMPONENTS=groups" -DKEYWAY_BUILD_PROGRAM=ON)
expect_refusal("apt-get install libsqlite3-dev .*KEYWAY_COMPONENTS" -DKEYWAY_BUILD_TESTS=OFF -DKEYWAY_BUILD_PROGRAM=OFF
  -DCMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON)
