# docs/regimes.md is what the command prints.
#   cmake -D PROGRAM=<ioattn> -D PAGE=<docs/regimes.md> -P regimes.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${PROGRAM} regimes OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} written)
if(NOT printed STREQUAL written)
  message(FATAL_ERROR "${PAGE} is not what `ioattn regimes` prints: write it again")
endif()
