# Run by cpack between installing and packing: what Debian wants in /usr/share/doc/<package> and how it
# wants manual pages. Policy 12.1, 12.5, 12.7: https://www.debian.org/doc/debian-policy/ch-docs.html

# -n: the same bytes whenever they are packed.
find_program(GZIP gzip REQUIRED)
function(compress file)
  execute_process(COMMAND ${GZIP} -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The licence as a field of the machine-readable format: indented, blank lines as " .".
file(READ ${CPACK_IOATTN_SOURCE}/LICENSE license)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]*)" ignored "${license}")
set(holder "${CMAKE_MATCH_1}")
string(STRIP "${license}" license)
string(REPLACE "\n" "\n " license "${license}")
string(REPLACE "\n \n" "\n .\n" license "${license}")
set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ioattn

Files: *
Copyright: ${holder}
License: BSD-3-clause
 ${license}
")

set(version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
# Of the sources: packages of several architectures share this file.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  set(ENV{SOURCE_DATE_EPOCH} ${CPACK_IOATTN_DATE})
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX})

  cmake_path(GET CPACK_IOATTN_DOCDIR PARENT_PATH docs)
  set(folder ${root}/${docs}/${package})
  file(RENAME ${root}/${CPACK_IOATTN_DOCDIR} ${folder})
  file(REMOVE ${folder}/LICENSE)
  file(WRITE ${folder}/copyright "${copyright}")
  configure_file(${CPACK_IOATTN_SOURCE}/CHANGELOG.md ${folder}/changelog COPYONLY)
  compress(${folder}/changelog)
  file(WRITE ${folder}/changelog.Debian "ioattn (${version}) unstable; urgency=medium

  * Packaged by cpack from the sources of ioattn ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  compress(${folder}/changelog.Debian)

  file(GLOB pages ${root}/${CPACK_IOATTN_MANDIR}/man1/*.1)
  foreach(page IN LISTS pages)
    compress(${page})
  endforeach()
endforeach()
