# The compiler of the sanitizer presets: clang 19 where it is installed, for its better reports; else g++.
find_program(KEYWAY_CLANG clang++-19)
if(KEYWAY_CLANG)
  set(CMAKE_CXX_COMPILER "${KEYWAY_CLANG}")
else()
  set(CMAKE_CXX_COMPILER g++)
endif()
