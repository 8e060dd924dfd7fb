# check.cmake for every document: whoever adds one that shows code need not remember to register it.
#   cmake -D ROOT=<source tree> -D QUOTES=<least number in all of them> -P pages.cmake
cmake_minimum_required(VERSION 3.25)

file(GLOB pages RELATIVE ${ROOT} ${ROOT}/*.md)
foreach(folder IN ITEMS bench docs examples include lib tests tune)
  file(GLOB_RECURSE found RELATIVE ${ROOT} ${ROOT}/${folder}/*.md)
  list(APPEND pages ${found})
endforeach()

set(quotes 0)
set(problems "")
foreach(page IN LISTS pages)
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${ROOT} -D DOCUMENT=${page} -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    string(APPEND problems "\n${text}")
  elseif(text MATCHES ": ([0-9]+) quotes are true")
    math(EXPR quotes "${quotes} + ${CMAKE_MATCH_1}")
  endif()
endforeach()
if(problems)
  message(FATAL_ERROR "${problems}")
endif()
if(quotes LESS QUOTES)
  message(FATAL_ERROR "${quotes} blocks quote a file, ${QUOTES} were expected")
endif()
