# What every target of the project is compiled with.
add_library(ioattn_flags INTERFACE)
target_compile_features(ioattn_flags INTERFACE cxx_std_20 c_std_99)
target_compile_options(ioattn_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${IOATTN_WERROR}>:-Werror>
  -fno-fast-math  # whatever a project that takes this one in has set: results have NaN and infinities
  # GCC 12 warns about std::string's own code: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_EXTENSIONS OFF)

# One room of the house: a static library whose headers are included as "room/file.hpp".
# DEPENDS names rooms; tests/layering holds the same table against the #include lines.
function(ioattn_add_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(ioattn_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(ioattn_${name} PUBLIC ${PROJECT_SOURCE_DIR}/lib)
  set_target_properties(ioattn_${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(ioattn_${name} PRIVATE ioattn_flags)
  foreach(room IN LISTS ROOM_DEPENDS)
    target_link_libraries(ioattn_${name} PUBLIC ioattn_${room})
  endforeach()
endfunction()
