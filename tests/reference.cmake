# Compares docs/reference.md with what the program says of itself.
#   cmake -DPARLEY=program -DPAGE=docs/reference.md -DFRESH=file -P reference.cmake
execute_process(COMMAND ${PARLEY} list --markdown OUTPUT_FILE ${FRESH} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "'${PARLEY} list --markdown' failed: ${result}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${FRESH} ${PAGE} RESULT_VARIABLE differ OUTPUT_QUIET ERROR_QUIET)
if(differ)
  find_program(DIFF diff)
  if(DIFF)
    execute_process(COMMAND ${DIFF} -u ${PAGE} ${FRESH})
  endif()
  message(FATAL_ERROR "${PAGE} is not what the program says (see above). Write it again and commit it:\n"
                      "  ${PARLEY} list --markdown > ${PAGE}")
endif()
