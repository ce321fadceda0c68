# Run by cpack: every Debian package says its license where Debian wants it.
if(CPACK_GENERATOR STREQUAL "DEB")
  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    configure_file(${CPACK_RESOURCE_FILE_LICENSE}
      ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}/copyright COPYONLY)
  endforeach()
endif()
