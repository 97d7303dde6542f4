# phasor_require_googleapis(): sets PHASOR_GOOGLEAPIS_DIR in the caller's scope, a folder that holds
# google/rpc/status.proto and google/rpc/error_details.proto, ready for `protoc -I`.
#
# Given on the command line (-DPHASOR_GOOGLEAPIS_DIR=/path), that folder is used and nothing is fetched. Otherwise the
# pinned wheel of deploy/requirements/googleapis.txt is downloaded once, checked against its SHA-256 and unpacked into
# build/_deps of the source tree, which all build folders share: only the first configuration needs the network.

function(phasor_pip_download requirements folder result)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(arguments download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes
      --requirement ${requirements} --dest ${folder})
  set(python ${Python3_EXECUTABLE})
  execute_process(COMMAND ${python} -m pip --version RESULT_VARIABLE no_pip OUTPUT_QUIET ERROR_QUIET)
  if(no_pip)
    # Debian's python3-venv brings pip into a virtual environment only.
    execute_process(COMMAND ${python} -m venv ${folder}/venv COMMAND_ERROR_IS_FATAL ANY)
    set(python ${folder}/venv/bin/python)
  endif()
  execute_process(COMMAND ${python} -m pip ${arguments} RESULT_VARIABLE code ERROR_VARIABLE message)
  if(code)
    message(FATAL_ERROR "Cannot download ${requirements}:\n${message}\n"
                        "Without a network, pass -DPHASOR_GOOGLEAPIS_DIR=<folder with google/rpc/status.proto>.")
  endif()
  file(GLOB wheel ${folder}/*.whl)
  set(${result} ${wheel} PARENT_SCOPE)
endfunction()

function(phasor_require_googleapis)
  if(NOT PHASOR_GOOGLEAPIS_DIR)
    set(requirements ${PROJECT_SOURCE_DIR}/deploy/requirements/googleapis.txt)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${requirements})
    # The folder's name carries the pin, so that a changed pin is fetched anew.
    file(SHA256 ${requirements} pin)
    string(SUBSTRING ${pin} 0 12 pin)
    set(folder ${PROJECT_SOURCE_DIR}/build/_deps/googleapis-${pin})
    if(NOT EXISTS ${folder}/google/rpc/error_details.proto)
      # Two configurations may run at once: each unpacks beside, the first to rename wins.
      string(RANDOM LENGTH 8 suffix)
      set(work ${folder}.${suffix})
      file(MAKE_DIRECTORY ${work})
      phasor_pip_download(${requirements} ${work} wheel)
      file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${work}/tree PATTERNS google/rpc/*.proto)
      file(RENAME ${work}/tree ${folder} RESULT lost_the_race)
      file(REMOVE_RECURSE ${work})
    endif()
    set(PHASOR_GOOGLEAPIS_DIR ${folder})
  endif()
  foreach(name status error_details)
    if(NOT EXISTS ${PHASOR_GOOGLEAPIS_DIR}/google/rpc/${name}.proto)
      message(FATAL_ERROR "PHASOR_GOOGLEAPIS_DIR=${PHASOR_GOOGLEAPIS_DIR} lacks google/rpc/${name}.proto")
    endif()
  endforeach()
  set(PHASOR_GOOGLEAPIS_DIR ${PHASOR_GOOGLEAPIS_DIR} PARENT_SCOPE)
endfunction()
