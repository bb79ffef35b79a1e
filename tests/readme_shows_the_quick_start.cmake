# Fails when the program in README.md is not the one that is compiled and run as examples/quick_start.cc.
# Needs: ROOT, the project's folder.
file(READ "${ROOT}/README.md" readme)
file(READ "${ROOT}/examples/quick_start.cc" program)
string(FIND "${readme}" "```cpp\n${program}```" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md does not show examples/quick_start.cc as it is. Copy the program into the section "
    "\"The library in your project\".")
endif()
