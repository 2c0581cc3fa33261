# What `cmake --install` puts under the prefix: programs, the plugin, manual pages and documents.
set(MUSTER_DOC_DIR ${CMAKE_INSTALL_DATADIR}/doc/muster)

foreach(program muster rendezvousd muster-train)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# The pages are made by the program that they describe, in an environment without settings.
set(man_pages)
foreach(page muster=muster.1 environment=muster-environment.7)
  string(REPLACE "=" ";" page ${page})
  list(GET page 0 name)
  list(GET page 1 file)
  set(output ${CMAKE_BINARY_DIR}/man/${file})
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
    COMMAND sh -c "env -i $<TARGET_FILE:muster> config --man=${name} > ${output}.new"
    COMMAND ${CMAKE_COMMAND} -E rename ${output}.new ${output}
    DEPENDS muster
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
    COMMENT "Writing man/${file}"
    VERBATIM)
  list(APPEND man_pages ${output})
endforeach()
add_custom_target(man_pages ALL DEPENDS ${man_pages})
install(FILES ${CMAKE_BINARY_DIR}/man/muster.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/man/muster-environment.7
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)

install(FILES LICENSE SECURITY.md DESTINATION ${MUSTER_DOC_DIR})
install(DIRECTORY docs/user docs/admin DESTINATION ${MUSTER_DOC_DIR}/docs)
