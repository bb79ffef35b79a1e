# keyway_add_room(<room> [PROGRAM_ONLY]
#   HEADERS    <file>...    public headers, relative to include/keyway/
#   SOURCES    <file>...    relative to the room's folder
#   LINKS      <room>...    the rooms it builds on
#   TESTS      <file>...    its *_test.cc
#   TEST_LINKS <room>...    rooms that only its tests use)
#
# Makes the static library keyway_<room>, known as keyway::<room>, and the test program keyway_<room>_tests, whose
# tests carry the label <room>. No globs: a file that is not listed is not built, and the test
# `every_file_is_listed` names it. A room that is PROGRAM_ONLY is part of the program `keyway`, not of the library: it
# is not installed.
function(keyway_add_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROGRAM_ONLY" "" "HEADERS;SOURCES;LINKS;TESTS;TEST_LINKS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "keyway_add_room(${room}): unexpected: ${arg_UNPARSED_ARGUMENTS}")
  endif()

  set(target keyway_${room})
  set(headers ${arg_HEADERS})
  list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/keyway/")
  list(TRANSFORM arg_LINKS PREPEND "keyway::")
  list(TRANSFORM arg_TEST_LINKS PREPEND "keyway::")

  add_library(${target} STATIC ${arg_SOURCES})
  add_library(keyway::${room} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${arg_LINKS} Threads::Threads)
  keyway_own_code(${target})
  if(NOT arg_PROGRAM_ONLY)
    keyway_install_target(${target})
    set_property(GLOBAL APPEND PROPERTY KEYWAY_ROOMS ${target})
  endif()
  set_property(GLOBAL APPEND PROPERTY KEYWAY_PUBLIC_HEADERS ${arg_HEADERS})
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE sources)
  set_property(GLOBAL PROPERTY KEYWAY_SOURCES_${room} ${sources})
  list(TRANSFORM arg_TESTS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE tests)
  set_property(GLOBAL APPEND PROPERTY KEYWAY_LISTED_FILES ${headers} ${sources} ${tests})

  if(KEYWAY_BUILD_TESTS AND arg_TESTS)
    add_executable(${target}_tests ${arg_TESTS})
    target_link_libraries(${target}_tests PRIVATE ${target} ${arg_TEST_LINKS} GTest::gtest_main)
    keyway_own_code(${target}_tests)
    target_include_directories(${target}_tests PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    gtest_discover_tests(${target}_tests
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 120
      PROPERTIES TIMEOUT 300 LABELS ${room})
  endif()
endfunction()

# The settings of code that lives in this repository: C++20, our warnings, and includes written from src/.
function(keyway_own_code target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    target_compile_features(${target} PUBLIC cxx_std_20)
  else()
    target_compile_features(${target} PRIVATE cxx_std_20)
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:keyway_warnings>)
  target_compile_definitions(${target} PRIVATE $<$<BOOL:${KEYWAY_CHECK_LOCK_RANKS}>:KEYWAY_CHECK_LOCK_RANKS>)
endfunction()

function(keyway_install_target target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    install(TARGETS ${target} EXPORT keywayTargets)
  else()
    install(TARGETS ${target} EXPORT keywayTargets FILE_SET HEADERS)
  endif()
endfunction()
