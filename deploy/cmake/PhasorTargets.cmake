# Every target of the project is made by one of these functions, so that flags, warnings and names are decided once.
#
#   phasor_cc_library(NAME core SRCS a.cc HDRS a.h DEPS absl::status PRIVATE_DEPS hwy::hwy [INSTALL])   → phasor::core
#   phasor_cc_binary(NAME phasord SRCS main.cc DEPS phasor::server)                                     → build/bin/phasord
#   phasor_cc_test(NAME narrow_test SRCS narrow_test.cc DEPS phasor::core [LABELS slow] [TIMEOUT 60])   → a CTest

set(PHASOR_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter -Werror)
# The bits of results are part of the contract: no contraction that the source does not spell.
set(PHASOR_FLAGS -ffp-contract=off -fno-math-errno -fvisibility=hidden -fvisibility-inlines-hidden)

if(PHASOR_SANITIZE)
  add_compile_options(-fsanitize=${PHASOR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${PHASOR_SANITIZE})
endif()

function(phasor_target_defaults target)
  target_compile_options(${target} PRIVATE ${PHASOR_FLAGS} ${PHASOR_WARNINGS})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
endfunction()

function(phasor_cc_library)
  cmake_parse_arguments(ARG "INSTALL" "NAME" "SRCS;HDRS;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target phasor_${ARG_NAME})
  if(ARG_SRCS)
    add_library(${target} STATIC ${ARG_SRCS} ${ARG_HDRS})
    phasor_target_defaults(${target})
    target_link_libraries(${target} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(${target} INTERFACE ${ARG_DEPS})
  endif()
  add_library(phasor::${ARG_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${ARG_NAME})
  if(ARG_INSTALL)
    install(TARGETS ${target} EXPORT PhasorTargets ARCHIVE DESTINATION lib INCLUDES DESTINATION include/phasor)
    foreach(header ${ARG_HDRS})
      file(RELATIVE_PATH relative ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${header})
      get_filename_component(folder ${relative} DIRECTORY)
      install(FILES ${header} DESTINATION include/phasor/${folder})
    endforeach()
  endif()
endfunction()

function(phasor_cc_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  phasor_target_defaults(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
endfunction()

function(phasor_cc_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SRCS;DEPS;LABELS;ARGS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  phasor_target_defaults(${ARG_NAME})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${ARG_NAME} PRIVATE PHASOR_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} ${ARG_ARGS})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
