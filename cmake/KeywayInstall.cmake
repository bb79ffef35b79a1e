# The installed package: find_package(keyway) gives keyway::keyway and one target per room.
include(CMakePackageConfigHelpers)

set(keyway_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/keyway")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/keywayConfig.cmake.in" "${PROJECT_BINARY_DIR}/keywayConfig.cmake"
  INSTALL_DESTINATION "${keyway_package_dir}")
# Until 1.0 a minor version may break its callers.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/keywayConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/keywayConfig.cmake" "${PROJECT_BINARY_DIR}/keywayConfigVersion.cmake"
  DESTINATION "${keyway_package_dir}")
install(EXPORT keywayTargets NAMESPACE keyway:: DESTINATION "${keyway_package_dir}")
