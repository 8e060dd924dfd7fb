# What `cmake --install` puts where, and how other projects find it: find_package(ioattn) gives the target
# ioattn::ioattn, pkg-config the module ioattn. Both know the shared library only.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS ioattn EXPORT ioattn-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ioattn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET ioattn_command AND IOATTN_TOOLS)
  install(TARGETS ioattn_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ioattn)
install(EXPORT ioattn-targets NAMESPACE ioattn:: FILE ioattn-config.cmake DESTINATION ${package_dir})
# Before 1.0 a new minor version may break the ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ioattn-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ioattn-config-version.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH IOATTN_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/ioattn.pc.in ioattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ioattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# For projects that take this one in with add_subdirectory.
add_library(ioattn::ioattn ALIAS ioattn)
