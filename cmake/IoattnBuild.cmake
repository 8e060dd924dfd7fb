# How this project is built when it is the top-level project, and what instruments the build.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

  find_program(IOATTN_CCACHE ccache)
  mark_as_advanced(IOATTN_CCACHE)
  if(IOATTN_CCACHE)  # which knows preprocessed text, not what a compiler wrote for itself
    set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
  endif()
  foreach(language IN ITEMS C CXX)
    if(IOATTN_CCACHE AND NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${IOATTN_CCACHE})
    endif()
  endforeach()
endif()

if(IOATTN_SANITIZE)
  # Every report ends the program: a test that goes on after one would pass.
  add_compile_options(-fsanitize=${IOATTN_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${IOATTN_SANITIZE})
  # Kernels, and loops over small functions. Checks of every step and use of a pointer keep clang 14 from inlining these, and
  # make it take five times as long for kernels, more than six minutes a file: what kernels read and write is watched by
  # AddressSanitizer and by the guard pages of the tests. Its checks are calls in those of AVX-512, of pairs and of tiles,
  # which then compile in a quarter to half of the time.
  set(IOATTN_SANITIZED_LOOPS -fno-sanitize=pointer-overflow,alignment,null,object-size -g1)
  set(IOATTN_SANITIZED_BY_CALLS "$<$<CXX_COMPILER_ID:Clang>:-mllvm;-asan-instrumentation-with-call-threshold=0>")
endif()

if(IOATTN_COVERAGE)
  # Atomic: threads count too.
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
