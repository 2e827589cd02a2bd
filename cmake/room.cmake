# srun_room(NAME SOURCES … LINKS …): the static library srun_NAME of the room src/NAME.
function(srun_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(srun_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(srun_${name} PUBLIC srun_warnings ${ROOM_LINKS} PRIVATE ${ROOM_PRIVATE_LINKS})
endfunction()

# srun_unit_test(NAME SOURCES … LINKS …): one doctest executable per room, CTest label "unit".
function(srun_unit_test name)
  cmake_parse_arguments(UNIT "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(unit-${name} ${UNIT_SOURCES} ${CMAKE_SOURCE_DIR}/tests/support/doctest_main.cc)
  if(NOT TARGET srun_test_warnings)
    # doctest's CHECK macros trip these in the caller's code. Linked last, since options of a target itself come before
    # those of what it links, and the last one holds.
    add_library(srun_test_warnings INTERFACE)
    target_compile_options(srun_test_warnings INTERFACE -Wno-conversion -Wno-old-style-cast -Wno-sign-conversion)
  endif()
  target_link_libraries(unit-${name} PRIVATE srun_warnings doctest::doctest ${UNIT_LINKS} srun_test_warnings)
  target_include_directories(unit-${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  add_test(NAME unit.${name} COMMAND unit-${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300 ENVIRONMENT
    "SANDBOX_RUN_SOURCE_DIR=${CMAKE_SOURCE_DIR};SANDBOX_RUN_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()
