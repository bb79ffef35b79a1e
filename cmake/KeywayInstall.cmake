# The installed package: find_package(keyway) gives keyway::keyway and one target per component; pkg-config finds
# keyway and keyway-<component>.
include(CMakePackageConfigHelpers)

set(keyway_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/keyway")

# Each component has an export file of its own, so that one can be loaded without the others.
install(TARGETS keyway EXPORT keyway)
install(EXPORT keyway FILE keyway-targets.cmake NAMESPACE keyway:: DESTINATION "${keyway_package_dir}")
set(component_table "")
foreach(component IN LISTS keyway_built_components)
  install(TARGETS keyway_${component} EXPORT keyway_${component} FILE_SET HEADERS)
  install(EXPORT keyway_${component} FILE keyway-${component}-targets.cmake NAMESPACE keyway::
    DESTINATION "${keyway_package_dir}")
  get_property(links GLOBAL PROPERTY KEYWAY_LINKS_${component})
  string(APPEND component_table "set(_keyway_links_${component} ${links})\n")
  # A shared library brings its packages' libraries with it.
  if(NOT BUILD_SHARED_LIBS)
    get_property(packages GLOBAL PROPERTY KEYWAY_PACKAGES_${component})
    string(APPEND component_table "set(_keyway_packages_${component} ${packages})\n")
    foreach(package IN LISTS packages)
      keyway_package(${package} debian debian_name)
      string(APPEND component_table "set(_keyway_debian_${package} ${debian_name})\n")
    endforeach()
  endif()
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/keywayConfig.cmake.in" "${PROJECT_BINARY_DIR}/keywayConfig.cmake"
  INSTALL_DESTINATION "${keyway_package_dir}" NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Until 1.0 a minor version may break its callers.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/keywayConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/keywayConfig.cmake" "${PROJECT_BINARY_DIR}/keywayConfigVersion.cmake"
  DESTINATION "${keyway_package_dir}")

# For pkg-config. The prefix is found from the place of the file, so `cmake --install --prefix` and a moved folder work.
set(pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
  set(pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  file(RELATIVE_PATH up "/${pc_dir}" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()

# keyway_install_pc(<name> <description> <library or ""> <required>...)
function(keyway_install_pc pc_name pc_description library)
  list(JOIN ARGN ", " pc_requires)
  set(pc_libs "-L\${libdir}")
  if(library)
    string(APPEND pc_libs " -l${library}")
  endif()
  get_property(cflags GLOBAL PROPERTY KEYWAY_PC_CFLAGS_${component})
  list(TRANSFORM cflags PREPEND " " OUTPUT_VARIABLE pc_cflags)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/keyway.pc.in" "${PROJECT_BINARY_DIR}/pkgconfig/${pc_name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/pkgconfig/${pc_name}.pc" DESTINATION "${pc_dir}")
endfunction()

set(all_but_testing "")
foreach(component IN LISTS keyway_built_components)
  get_property(links GLOBAL PROPERTY KEYWAY_LINKS_${component})
  list(TRANSFORM links PREPEND "keyway-")
  list(TRANSFORM links APPEND " = ${PROJECT_VERSION}")
  set(requires ${links})
  # In Requires, not in Requires.private: a program needs all of it to link a static library, with --static or without.
  if(NOT BUILD_SHARED_LIBS)
    get_property(packages GLOBAL PROPERTY KEYWAY_PACKAGES_${component})
    foreach(package IN LISTS packages)
      keyway_package(${package} pkg_config pkg_config_name)
      list(APPEND requires ${pkg_config_name})
    endforeach()
  endif()
  keyway_install_pc(keyway-${component} "${PROJECT_DESCRIPTION} (component ${component})" keyway_${component} ${requires})
  if(NOT component STREQUAL "testing")
    list(PREPEND all_but_testing "keyway-${component} = ${PROJECT_VERSION}")
  endif()
endforeach()
keyway_install_pc(keyway "${PROJECT_DESCRIPTION}" "" ${all_but_testing})
