# cmake -P print_googleapis.cmake: prints the folder of the google/rpc protos, fetching them first where needed.
cmake_minimum_required(VERSION 3.25)
get_filename_component(PROJECT_SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
include(${CMAKE_CURRENT_LIST_DIR}/GoogleApis.cmake)
phasor_require_googleapis()
execute_process(COMMAND ${CMAKE_COMMAND} -E echo ${PHASOR_GOOGLEAPIS_DIR})
