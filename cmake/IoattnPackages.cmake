# Debian packages, one per component of IoattnInstall.cmake: cpack -G DEB. Meant for a build whose prefix
# is /usr (./run package), as only there GNUInstallDirs takes Debian's folder for libraries.
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
# Before the changelog has a section of this version what is packed is older than the release: ~ sorts so.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
file(STRINGS ${PROJECT_SOURCE_DIR}/CHANGELOG.md released REGEX "^## \\[${PROJECT_VERSION}\\]")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
if(NOT released)
  string(APPEND CPACK_PACKAGE_VERSION "~dev")
endif()
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
if(NOT CPACK_PACKAGE_CONTACT)  # whoever gives packages away sets it
  set(CPACK_PACKAGE_CONTACT "the ioattn authors <ioattn@localhost>")
endif()
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# Before 1.0 a new version may break the ABI: programs need the one they were linked with.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY =)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_DEV_DEPENDS lib)

# Unset, the first line of every package's description would be the project's.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
# package(COMPONENT NAME SECTION WHAT)
function(package component name section what)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${component}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${component}_DESCRIPTION "exact softmax attention on CPUs - ${what}
Forward and backward passes of attention that move as few words between
cache and memory as they can: caches are found, every schedule has an exact
cost and a lower bound, and results are bit-identical for every number of
threads." PARENT_SCOPE)
endfunction()
package(LIB libioattn${IOATTN_SOVERSION} libs "shared library")
package(DEV libioattn-dev libdevel "development files")
package(TOOLS ioattn-tools science "command")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS gnuplot-nox)  # plots of figure and measure

# What the programs are linked with; without the tool the packages depend on nothing.
find_program(IOATTN_DPKG_SHLIBDEPS dpkg-shlibdeps)
mark_as_advanced(IOATTN_DPKG_SHLIBDEPS)
if(IOATTN_DPKG_SHLIBDEPS)
  set(CPACK_DEBIAN_LIB_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
else()
  message(STATUS "ioattn: no dpkg-shlibdeps, so Debian packages will name no libraries they need")
endif()
# Packages of several architectures may be installed side by side if their paths differ.
if(CMAKE_LIBRARY_ARCHITECTURE AND CMAKE_INSTALL_LIBDIR MATCHES "${CMAKE_LIBRARY_ARCHITECTURE}")
  set(CPACK_DEBIAN_LIB_PACKAGE_MULTIARCH same)
  set(CPACK_DEBIAN_DEV_PACKAGE_MULTIARCH same)
endif()

set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)
set(CPACK_IOATTN_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_IOATTN_DATE ${IOATTN_DATE})
set(CPACK_IOATTN_DOCDIR ${CMAKE_INSTALL_DOCDIR})
set(CPACK_IOATTN_MANDIR ${CMAKE_INSTALL_MANDIR})
include(CPack)
