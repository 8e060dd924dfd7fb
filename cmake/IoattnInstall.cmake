# What `cmake --install` puts where, and how other projects find it: find_package(ioattn) gives the target
# ioattn::ioattn, pkg-config the module ioattn. Both know the shared library only, and nothing knows the
# prefix: the installed tree can be moved. Components: lib (to run programs), dev (to build them), tools.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
if(NOT PROJECT_IS_TOP_LEVEL)  # it may be that of the project that takes this one in
  set(CMAKE_INSTALL_DOCDIR ${CMAKE_INSTALL_DATAROOTDIR}/doc/ioattn)
endif()

install(TARGETS ioattn EXPORT ioattn-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib NAMELINK_COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/ioattn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
# What the header names, what that links to, and all at the same paths as here.
foreach(document IN ITEMS docs/paper-notes.md docs/regimes.md docs/tuning.md lib/theory/BOUNDS.md lib/theory/README.md)
  cmake_path(GET document PARENT_PATH folder)
  install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT dev)
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ioattn)
install(EXPORT ioattn-targets NAMESPACE ioattn:: DESTINATION ${package_dir} COMPONENT dev)
configure_package_config_file(cmake/ioattn-config.cmake.in ioattn-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may break the ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ioattn-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ioattn-config.cmake ${PROJECT_BINARY_DIR}/ioattn-config-version.cmake
  DESTINATION ${package_dir} COMPONENT dev)

# Absolute folders stay where they are.
set(IOATTN_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  set(IOATTN_PC_PREFIX "\${pcfiledir}/${to_prefix}")
endif()
foreach(folder IN ITEMS LIBDIR INCLUDEDIR)
  set(IOATTN_PC_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    set(IOATTN_PC_${folder} ${CMAKE_INSTALL_${folder}})
  endif()
endforeach()
configure_file(cmake/ioattn.pc.in ioattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ioattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT dev)

set(components lib dev)
if(IOATTN_TOOLS)
  list(APPEND components tools)
  install(TARGETS ioattn_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  if(IOATTN_MAN_PAGE)
    install(FILES ${IOATTN_MAN_PAGE} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  endif()
endif()
# Binaries come with their licence, whichever of them are installed.
foreach(component IN LISTS components)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ${component})
endforeach()

# For projects that take this one in with add_subdirectory.
add_library(ioattn::ioattn ALIAS ioattn)
