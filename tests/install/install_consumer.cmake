# cmake -DBUILD_DIR=… -DCONSUMER_DIR=… -DWORK_DIR=… -DGENERATOR=… -DCXX=… [-DCXX_FLAGS=…] -P install_consumer.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nfailed (${result}):\n${output}")
  endif()
  set(run_output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix --component kernels)
run(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${WORK_DIR}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)

# cos of pair 32 at position 131071 in tests/golden/models/llama-3-1-8b.json: 0.94831054976305878577, as a float.
string(STRIP "${run_output}" value)
if(NOT value STREQUAL "0.948310554")
  message(FATAL_ERROR "the consumer printed '${value}'")
endif()
