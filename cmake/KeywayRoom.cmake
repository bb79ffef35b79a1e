# keyway_add_room(<room> [PROGRAM_ONLY]
#   HEADERS    <file>...    public headers, relative to include/keyway/
#   SOURCES    <file>...    relative to the room's folder
#   LINKS      <room>...    the rooms it builds on
#   PACKAGES   <package>... third-party libraries of its sources, named as in KeywayPackages.cmake; no public header
#                           includes theirs
#   TESTS      <file>...    its *_test.cc
#   TEST_LINKS <room>...    rooms that only its tests use)
#
# Makes the library keyway_<room>, known as keyway::<room>, and the test program keyway_<room>_tests, whose
# tests carry the label <room>. No globs: a file that is not listed is not built, and the test
# `every_file_is_listed` names it. A room that is PROGRAM_ONLY is part of the program `keyway`, not of the library: it
# is always static and is not installed. Any other room is a component of the package, shared if BUILD_SHARED_LIBS is on.
function(keyway_add_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROGRAM_ONLY" "" "HEADERS;SOURCES;LINKS;PACKAGES;TESTS;TEST_LINKS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "keyway_add_room(${room}): unexpected: ${arg_UNPARSED_ARGUMENTS}")
  endif()

  set(target keyway_${room})
  set(headers ${arg_HEADERS})
  list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/keyway/")
  list(TRANSFORM arg_LINKS PREPEND "keyway::" OUTPUT_VARIABLE links)
  list(TRANSFORM arg_TEST_LINKS PREPEND "keyway::")

  set(type STATIC)
  if(BUILD_SHARED_LIBS AND NOT arg_PROGRAM_ONLY)
    set(type SHARED)
  endif()
  add_library(${target} ${type} ${arg_SOURCES})
  add_library(keyway::${room} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${links} Threads::Threads)
  foreach(package IN LISTS arg_PACKAGES)
    keyway_package(${package} target package_target)
    target_link_libraries(${target} PRIVATE ${package_target})
  endforeach()
  keyway_own_code(${target})
  if(NOT arg_PROGRAM_ONLY)
    keyway_library_settings(${target})
    set_property(GLOBAL APPEND PROPERTY KEYWAY_NEEDED_ROOMS ${arg_LINKS})
    set_property(GLOBAL APPEND PROPERTY KEYWAY_NEEDED_PACKAGES ${arg_PACKAGES})
    set_property(GLOBAL PROPERTY KEYWAY_LINKS_${room} ${arg_LINKS})
    set_property(GLOBAL PROPERTY KEYWAY_PACKAGES_${room} ${arg_PACKAGES})
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

# keyway_add_rooms(): adds the folders of the rooms that KEYWAY_COMPONENTS names and of those they need, and finds their
# packages. Sets keyway_built_components, lowest first.
function(keyway_add_rooms)
  set(wanted ${KEYWAY_COMPONENTS})
  if(wanted STREQUAL "all")
    set(wanted ${keyway_known_components})
  elseif(KEYWAY_BUILD_TESTS OR KEYWAY_BUILD_PROGRAM OR KEYWAY_BUILD_EXAMPLES OR KEYWAY_BUILD_BENCHMARKS)
    message(FATAL_ERROR "The tests, the program, the examples and the benchmarks need all components. With "
      "-DKEYWAY_COMPONENTS=\"${KEYWAY_COMPONENTS}\", set KEYWAY_BUILD_TESTS, KEYWAY_BUILD_PROGRAM, "
      "KEYWAY_BUILD_EXAMPLES and KEYWAY_BUILD_BENCHMARKS to OFF.")
  endif()
  foreach(component IN LISTS wanted)
    if(NOT component IN_LIST keyway_known_components)
      list(JOIN keyway_known_components ", " known)
      message(FATAL_ERROR "KEYWAY_COMPONENTS: there is no component \"${component}\". The components: ${known}.")
    endif()
  endforeach()

  # Highest first: when it is a room's turn, all rooms that could need it have said so.
  set(built "")
  set(highest_first ${keyway_known_components})
  list(REVERSE highest_first)
  foreach(room IN LISTS highest_first)
    get_property(needed GLOBAL PROPERTY KEYWAY_NEEDED_ROOMS)
    if(room IN_LIST wanted OR room IN_LIST needed)
      string(REPLACE "_" "/" folder ${room})
      add_subdirectory(src/${folder})
      list(PREPEND built ${room})
    endif()
  endforeach()
  set(keyway_built_components ${built} PARENT_SCOPE)

  get_property(packages GLOBAL PROPERTY KEYWAY_NEEDED_PACKAGES)
  list(REMOVE_DUPLICATES packages)
  set(packages_and_names "")
  foreach(package IN LISTS packages)
    keyway_package(${package} debian debian_name)
    list(APPEND packages_and_names ${package}:${debian_name})
  endforeach()
  keyway_find_packages("Keyway"
    "The components runtime, groups, serial, locks and testing do without: to build some of them, configure with
-DKEYWAY_COMPONENTS=\"groups;locks\", for example."
    ${packages_and_names})
endfunction()

# The settings of code that lives in this repository: C++20, our warnings, and includes written from src/.
function(keyway_own_code target)
  get_target_property(type ${target} TYPE)
  if(type MATCHES "LIBRARY")
    target_compile_features(${target} PUBLIC cxx_std_20)
  else()
    target_compile_features(${target} PRIVATE cxx_std_20)
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:keyway_warnings>)
  target_compile_definitions(${target} PRIVATE $<$<BOOL:${KEYWAY_CHECK_LOCK_RANKS}>:KEYWAY_CHECK_LOCK_RANKS>)
endfunction()

# The settings of an installed library.
function(keyway_library_settings target)
  # Position independent also when static, so that a user can link it into a shared library. g++ then assumes that any
  # function may be replaced at run time, and inlines none, unless it is told otherwise.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  # Until 1.0 a minor version may break its callers.
  set_target_properties(${target} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  # So that shared libraries find each other in any prefix: a program's own path does not serve for what its libraries
  # load. Set CMAKE_SKIP_INSTALL_RPATH where libraries are only installed to folders that the loader searches.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
  # A room that uses a room it does not name under LINKS fails to link. A sanitizer's functions come with the program.
  if(BUILD_SHARED_LIBS AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
