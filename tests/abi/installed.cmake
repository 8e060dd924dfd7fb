# Installs the build into an empty prefix, moves that, and uses it as other projects would: the examples
# with find_package, consumer.c with pkg-config.
#   cmake -D BUILD=<build tree> -D SOURCE=<source tree> -D WORK=<scratch folder> -D CC= -D CXX=<compilers>
#         -D GENERATOR= -D LIBDIR= -D VERSION= [-D PKG_CONFIG=<program>] -P installed.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${code}\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/staging)
set(prefix "${WORK}/moved")
file(RENAME ${WORK}/staging ${prefix})

run(${CMAKE_COMMAND} -S ${SOURCE}/examples -B ${WORK}/build -G ${GENERATOR}
    -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_C_COMPILER=${CC} -D CMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/layer_c)
run(${WORK}/build/layer_cpp)

if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs ioattn OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${CC} -std=c99 -DIOATTN_TEST_VERSION="${VERSION}" ${CMAKE_CURRENT_LIST_DIR}/consumer.c ${flags}
      -Wl,-rpath,${prefix}/${LIBDIR} -o ${WORK}/consumer)
  run(${WORK}/consumer)
endif()
