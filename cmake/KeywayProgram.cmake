# What the program needs besides the library. On Debian 12: see scripts/setup.sh.
set(keyway_missing "")
foreach(package_and_name IN ITEMS CLI11:libcli11-dev tomlplusplus:libtomlplusplus-dev fmt:libfmt-dev simdjson:libsimdjson-dev
    Boost:libboost1.81-dev OpenSSL:libssl-dev)
  string(REPLACE ":" ";" pair "${package_and_name}")
  list(GET pair 0 package)
  list(GET pair 1 debian_name)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND keyway_missing ${debian_name})
  endif()
endforeach()
if(keyway_missing)
  list(JOIN keyway_missing " " keyway_missing)
  message(FATAL_ERROR "The program keyway needs packages that are not installed. On Debian:\n"
    "  sudo apt-get install ${keyway_missing}\n"
    "To build the library alone, configure with -DKEYWAY_BUILD_PROGRAM=OFF.")
endif()
