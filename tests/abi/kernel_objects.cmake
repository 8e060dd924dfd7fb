# Each ISA's object holds that ISA's instructions and exports tables of kernels, nothing else. A weak
# symbol (an inline function, a template) would be merged with the same one of another object, and code
# for AVX-512 could run on a CPU without it.
#   cmake -D ARCHIVE=<libioattn_kernels.a> -D AR= -D NM= -D OBJDUMP= -D WORK=<scratch folder>
#         -D ISAS=<names> [-D X86=ON] -P kernel_objects.cmake
cmake_minimum_required(VERSION 3.25)

string(REPLACE "," ";" ISAS "${ISAS}")
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${AR} t ${ARCHIVE} OUTPUT_VARIABLE members COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" members "${members}")
execute_process(COMMAND ${AR} x ${ARCHIVE} WORKING_DIRECTORY ${WORK} COMMAND_ERROR_IS_FATAL ANY)

# Register tiles of so many vectors, all of which the loop that measures the peak multiplies.
set(sums_of_avx2 12)
set(sums_of_avx512 16)
set(problems "")
foreach(isa IN LISTS ISAS)
  set(member ${isa}.cpp.o)
  set(places ${members})
  list(FILTER places INCLUDE REGEX "^${isa}\\.cpp\\.o$")
  list(LENGTH places count)
  if(NOT count EQUAL 1)
    string(APPEND problems "\n  ${count} members are called ${member}")
    continue()
  endif()

  execute_process(COMMAND ${NM} -P ${WORK}/${member} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" symbols "${text}")
  set(exported "")
  foreach(symbol IN LISTS symbols)
    if(symbol MATCHES "^[^ ]+ [WVu] ")
      string(APPEND problems "\n  ${member}: weak: ${symbol}")
    elseif(symbol MATCHES "^([^ ]+) [A-TX-Z] ")
      list(APPEND exported ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(tables ${exported})
  list(FILTER tables INCLUDE REGEX "^_ZN6ioattn7kernels[0-9]+[a-z0-9_]+_(kernels|pairs)(_in_halves)?E$")
  if(NOT exported OR NOT tables STREQUAL exported)
    string(APPEND problems "\n  ${member} exports not just its tables: ${exported}")
  endif()

  if(X86)
    execute_process(COMMAND ${OBJDUMP} -d ${WORK}/${member} OUTPUT_VARIABLE code
      COMMAND_ERROR_IS_FATAL ANY)
    foreach(register IN ITEMS xmm ymm zmm)
      string(FIND "${code}" "%${register}" place)
      set(has_${register} FALSE)
      if(place GREATER_EQUAL 0)
        set(has_${register} TRUE)
      endif()
    endforeach()
    string(FIND "${code}" "vfmadd" fma)
    string(FIND "${code}" "vdpbf16ps" dot)
    string(FIND "${code}" "%tmm" tile)
    string(REGEX MATCHALL "ldtilecfg" set_up "${code}")
    string(REGEX MATCHALL "tilerelease" given_back "${code}")
    list(LENGTH set_up set_up)
    list(LENGTH given_back given_back)
    string(CONCAT found "xmm ${has_xmm} ymm ${has_ymm} zmm ${has_zmm} fma at ${fma}, tiles at ${tile}, "
      "set up ${set_up} and given back ${given_back} times")
    if((isa STREQUAL "scalar" AND (has_ymm OR has_zmm OR NOT has_xmm OR NOT fma EQUAL -1)) OR
       (isa STREQUAL "avx2" AND (NOT has_ymm OR has_zmm OR fma EQUAL -1)) OR
       (isa STREQUAL "avx512" AND (NOT has_zmm OR fma EQUAL -1 OR NOT dot EQUAL -1)) OR
       (isa STREQUAL "avx512_bf16" AND (NOT has_zmm OR dot EQUAL -1)) OR
       (isa STREQUAL "avx512_amx" AND (tile EQUAL -1 OR NOT set_up EQUAL 1 OR NOT given_back EQUAL 1)) OR
       (NOT isa STREQUAL "avx512_amx" AND
        (NOT tile EQUAL -1 OR NOT set_up EQUAL 0 OR NOT given_back EQUAL 0)))
      string(APPEND problems "\n  ${member} holds the wrong instructions: ${found}")
    endif()

    string(REPLACE ";" "," all_functions "${code}")
    string(REPLACE "\n\n" ";" all_functions "${all_functions}")

    # Registers are just enough for the sums of a tile: one in memory waits there at every term.
    set(functions "${all_functions}")
    list(FILTER functions INCLUDE REGEX "RegisterTiles[^>]*5tilesI[^>]*>:")
    if(isa MATCHES "^avx512(_bf16)?$")
      list(LENGTH functions count)
      list(FILTER functions INCLUDE REGEX "(vfmadd|vdpbf16)[^\n]*\\(%r[sb]p\\)")
      foreach(function IN LISTS functions)
        string(REGEX MATCH "<[^>]*>" name "${function}")
        string(APPEND problems "\n  ${member}: sums in memory: ${name}")
      endforeach()
      if(count EQUAL 0)
        string(APPEND problems "\n  ${member} has no register tiles")
      endif()
    endif()

    # A compiler that knows a sum not to change leaves it out, and the peak is told too high.
    if(DEFINED sums_of_${isa})
      set(functions "${all_functions}")
      list(FILTER functions INCLUDE REGEX "<[^>]*fma_loop[^>]*>:")
      foreach(function IN LISTS functions)
        string(REGEX MATCHALL "vfmadd[0-9]+p[sd]" fmas "${function}")
        list(LENGTH fmas fmas)
        math(EXPR left "${fmas} % ${sums_of_${isa}}")
        if(fmas EQUAL 0 OR NOT left EQUAL 0)
          string(APPEND problems "\n  ${member}: fma_loop multiplies ${fmas} sums of ${sums_of_${isa}}")
        endif()
      endforeach()
      if(NOT functions)
        string(APPEND problems "\n  ${member} has no fma_loop")
      endif()
    endif()
  endif()
endforeach()

# No other object of the room may be compiled for more than the least CPU.
if(X86)
  foreach(member IN LISTS members)
    string(REGEX REPLACE "\\.cpp\\.o$" "" name ${member})
    if(NOT name IN_LIST ISAS)
      execute_process(COMMAND ${OBJDUMP} -d ${WORK}/${member} OUTPUT_VARIABLE code
        COMMAND_ERROR_IS_FATAL ANY)
      if(code MATCHES "%[yzt]mm|ldtilecfg|tilerelease")
        string(APPEND problems "\n  ${member} holds AVX or AMX instructions and is no ISA's object")
      endif()
    endif()
  endforeach()
endif()

if(problems)
  message(FATAL_ERROR "${ARCHIVE}:${problems}")
endif()
message(STATUS "${ISAS}: one table each, no weak symbol")
