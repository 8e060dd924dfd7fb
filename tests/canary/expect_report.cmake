# Runs PROGRAM with ARGS: with REPORT (a regular expression) it must fail and say so; without, it must
# end well and silently. A plain WILL_FAIL would be content with any crash.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${PROGRAM} ${ARGS} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(REPORT)
  if(code EQUAL 0 OR NOT text MATCHES "${REPORT}")
    message(FATAL_ERROR "the seeded bug was not reported (exit ${code}):\n${text}")
  endif()
elseif(NOT code EQUAL 0 OR text)
  message(FATAL_ERROR "a program without a bug was reported (exit ${code}):\n${text}")
endif()
