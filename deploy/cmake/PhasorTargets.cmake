# Every target of the project is made by one of these functions, so that flags, warnings and names are decided once.
#
#   phasor_cc_library(NAME core SRCS a.cc HDRS a.h DEPS absl::status PRIVATE_DEPS hwy::hwy [INSTALL])   → phasor::core
#   phasor_cc_binary(NAME phasord SRCS main.cc DEPS phasor::server)                                     → build/bin/phasord
#   phasor_cc_test(NAME narrow_test SRCS narrow_test.cc DEPS phasor::core [LABELS slow] [TIMEOUT 60])   → a CTest
#       LABELS threads: `make sanitize` also runs it under ThreadSanitizer (no gRPC in it: Debian's is not instrumented)
#   phasor_cc_fuzzer(NAME wire_fuzzer SRCS wire_fuzzer.cc DEPS phasor::wire CORPUS corpus/wire [MUTATIONS 2000])
#       → with PHASOR_FUZZ a libFuzzer program for `make fuzz`, otherwise a CTest over the corpus and its mutations

set(PHASOR_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter -Werror)
# The bits of results are part of the contract: no contraction that the source does not spell.
set(PHASOR_FLAGS -ffp-contract=off -fno-math-errno -fvisibility=hidden -fvisibility-inlines-hidden)

if(PHASOR_SANITIZE)
  add_compile_options(-fsanitize=${PHASOR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${PHASOR_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND PHASOR_WARNINGS -Wno-maybe-uninitialized)  # GCC finds it in std::regex and std::function, wrongly, with these
  endif()
endif()

if(PHASOR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_custom_target(fuzzers)
endif()
add_custom_target(threads_tests)

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
    install(
      TARGETS ${target}
      EXPORT PhasorTargets
      ARCHIVE DESTINATION lib COMPONENT kernels
      INCLUDES DESTINATION include/phasor)
    foreach(header ${ARG_HDRS})
      file(RELATIVE_PATH relative ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${header})
      get_filename_component(folder ${relative} DIRECTORY)
      install(FILES ${header} DESTINATION include/phasor/${folder} COMPONENT kernels)
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
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(threads_tests ${ARG_NAME})
  endif()
endfunction()

function(phasor_cc_fuzzer)
  cmake_parse_arguments(ARG "" "NAME;CORPUS;MUTATIONS" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  phasor_target_defaults(${ARG_NAME})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_CORPUS})
  if(PHASOR_FUZZ)
    target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${ARG_NAME})
    # Read by deploy/fuzz.sh: which corpus belongs to which program.
    file(WRITE ${CMAKE_BINARY_DIR}/fuzzers/${ARG_NAME}.corpus "${corpus}\n")
  else()
    if(NOT ARG_MUTATIONS)
      set(ARG_MUTATIONS 2000)
    endif()
    target_sources(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} --mutations=${ARG_MUTATIONS} ${corpus})
    set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT 120 LABELS fuzz)
  endif()
endfunction()
