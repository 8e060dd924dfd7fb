# The shared library exports what the header declares and symbols.txt lists: no less, no more, all under
# one version, behind the soname that programs are linked to.
#   cmake -D LIBRARY=<.so> -D NM= -D OBJDUMP= -D HEADER=<ioattn.h> -D LIST=<symbols.txt>
#         -D SONAME=<name> -D NODE=<version node> -P symbols.cmake
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${LIST} listed REGEX "^[^#]")

execute_process(COMMAND ${NM} -D -P --defined-only ${LIBRARY} OUTPUT_VARIABLE text
  COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" lines "${text}")
set(exported "")
set(problems "")
foreach(line IN LISTS lines)
  if(line STREQUAL "" OR line MATCHES "^${NODE}(@@${NODE})? A ")  # the version node itself
    continue()
  endif()
  if(line MATCHES "^([A-Za-z0-9_]+)@@?${NODE} [TW] ")
    list(APPEND exported ${CMAKE_MATCH_1})
  else()
    string(APPEND problems "\n  not a function of version ${NODE}: ${line}")
  endif()
endforeach()

# From the declarations, comments left out: "IOATTN_API <type> name(".
file(READ ${HEADER} text)
string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
string(REPLACE ";" "\n" text "${text}")
string(REGEX MATCHALL "IOATTN_API [^(\n]*ioattn_[a-z0-9_]+\\(" declarations "${text}")
set(declared "")
foreach(declaration IN LISTS declarations)
  string(REGEX MATCH "(ioattn_[a-z0-9_]+)\\($" matched "${declaration}")
  list(APPEND declared ${CMAKE_MATCH_1})
endforeach()

# compare A B TEXT: every element of list A is in list B.
function(compare a b text)
  foreach(name IN LISTS ${a})
    if(NOT name IN_LIST ${b})
      set(problems "${problems}\n  ${name} ${text}")
    endif()
  endforeach()
  set(problems "${problems}" PARENT_SCOPE)
endfunction()
compare(exported listed "is exported but not in symbols.txt")
compare(listed exported "is in symbols.txt but not exported")
compare(declared listed "is declared in the header but not in symbols.txt")
compare(listed declared "is in symbols.txt but not declared in the header")

execute_process(COMMAND ${OBJDUMP} -p ${LIBRARY} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
if(NOT text MATCHES "SONAME +${SONAME}\n")
  string(REGEX MATCH "SONAME[^\n]*" found "${text}")
  string(APPEND problems "\n  the soname is not ${SONAME}: ${found}")
endif()

list(LENGTH exported count)
if(count EQUAL 0 OR problems)
  message(FATAL_ERROR "${count} functions are exported.${problems}")
endif()
message(STATUS "${count} exported functions")
