# Builds the project from a copy of its sources that has the bugs of bugs.cmake in it. All of them are in one build;
# each is inactive unless the environment variable KEYWAY_BUG names it. As a script (cmake -P) it only checks that the
# bugs still fit the sources of PROJECT_SOURCE_DIR.

set(bite_copy "${PROJECT_BINARY_DIR}/planted")
set(bite_table "")

# plant_bug(<name> <description> <file> <original> <replacement> [AND <original> <replacement>]...)
#
# <original> must occur exactly once in the file, and <replacement> asks planted("<name>"). If the code has changed so
# that <original> is not there any more, the configuration fails, and the bug must be adapted.
function(plant_bug name description file)
  if(DEFINED bite_text_${file})
    set(text "${bite_text_${file}}")
  else()
    file(READ "${PROJECT_SOURCE_DIR}/${file}" text)
  endif()
  set(argument 3)
  while(argument LESS ARGC)
    set(original "${ARGV${argument}}")
    math(EXPR argument "${argument} + 1")
    set(replacement "${ARGV${argument}}")
    math(EXPR argument "${argument} + 2")  # also past AND
    string(FIND "${text}" "${original}" first)
    string(FIND "${text}" "${original}" last REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL last)
      message(FATAL_ERROR "tests/bite/bugs.cmake: ${name}: this text must occur exactly once in ${file}, and does not. "
        "If the code has changed, adapt the bug to it.\n${original}")
    endif()
    string(REPLACE "${original}" "${replacement}" text "${text}")
  endwhile()
  string(FIND "${text}" "planted(\"${name}\")" asks)
  if(asks EQUAL -1)
    message(FATAL_ERROR "tests/bite/bugs.cmake: ${name}: no replacement asks planted(\"${name}\")")
  endif()
  set(bite_text_${file} "${text}" PARENT_SCOPE)
  set(bite_table "${bite_table}${name}\t${file}\t${description}\n" PARENT_SCOPE)
endfunction()

include("${PROJECT_SOURCE_DIR}/tests/bite/bugs.cmake")
if(CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

# The copy is made when CMake runs, which `make bite` does each time.
file(GLOB_RECURSE files RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/cmake/*" "${PROJECT_SOURCE_DIR}/include/*" "${PROJECT_SOURCE_DIR}/src/*"
  "${PROJECT_SOURCE_DIR}/tests/*")
foreach(file IN LISTS files ITEMS CMakeLists.txt)
  set(from "${PROJECT_SOURCE_DIR}/${file}")
  if(DEFINED bite_text_${file})
    set(from "${PROJECT_BINARY_DIR}/planted.tmp")
    # #line: the lines of the copy have the numbers of the original.
    file(WRITE "${from}" "#include \"keyway/detail/planted.h\"\n#line 1\n${bite_text_${file}}")
  endif()
  get_filename_component(folder "${bite_copy}/${file}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  # A file keeps its time if its text stays the same, so a second build compiles only what has changed.
  file(COPY_FILE "${from}" "${bite_copy}/${file}" ONLY_IF_DIFFERENT)
endforeach()
file(COPY_FILE "${PROJECT_SOURCE_DIR}/tests/bite/planted.h" "${bite_copy}/include/keyway/detail/planted.h"
  ONLY_IF_DIFFERENT)

# For bite.py.
file(WRITE "${PROJECT_BINARY_DIR}/bugs.tsv" "${bite_table}")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(KEYWAY_PLANT_BUGS OFF)
add_subdirectory("${bite_copy}" "${PROJECT_BINARY_DIR}/built")
