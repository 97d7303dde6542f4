# CUDA for the targets that ask for it: the compiler, the static runtime, and flags under which device code gives the host's
# bits. Neither a GPU nor a driver is needed, to build or to start what was built.
if(NOT CMAKE_CUDA_COMPILER)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env PHASOR_TOOLS_DIR=$ENV{PHASOR_TOOLS_DIR} ${PROJECT_SOURCE_DIR}/deploy/install-tools.sh cuda
    COMMAND_ERROR_IS_FATAL ANY)
  if(DEFINED ENV{PHASOR_TOOLS_DIR})
    set(tools $ENV{PHASOR_TOOLS_DIR})
  else()
    set(tools ${PROJECT_SOURCE_DIR}/build/_tools)
  endif()
  file(REAL_PATH ${tools}/bin/nvcc nvcc)  # it finds its parts beside itself
  set(CMAKE_CUDA_COMPILER ${nvcc} CACHE FILEPATH "CUDA compiler")
endif()
# Machine code for each, and PTX of the newest for what comes after.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100-real 120)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
if(PHASOR_CCACHE AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${PHASOR_CCACHE})
endif()
enable_language(CUDA)

# No kernel spills, keeps an array in local memory or has a stack frame, on any architecture that is built: what would, does not
# compile with the compiler for which the kernels were written. Others allot registers as they do: they warn.
file(STRINGS ${PROJECT_SOURCE_DIR}/deploy/requirements/cuda.txt pinned REGEX "^nvidia-cuda-nvcc==")
string(REPLACE "nvidia-cuda-nvcc==" "" pinned "${pinned}")
string(COMPARE EQUAL "${CMAKE_CUDA_COMPILER_VERSION}" "${pinned}" is_pinned)
option(PHASOR_SPILLS_ARE_ERRORS "A kernel that spills does not compile (else: a warning)" ${is_pinned})
set(PHASOR_PTXAS_WARNINGS -Xptxas --warn-on-spills,--warn-on-local-memory-usage)
set(PHASOR_PTXAS_GATE ${PHASOR_PTXAS_WARNINGS},-Werror)

# Flags of a target with CUDA sources.
# CMake 3.25 does not know C++20 for nvcc, so the flag is given by hand.

function(phasor_cuda_flags target)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD_REQUIRED OFF)
  target_compile_options(
    ${target}
    PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-std=c++20 --fmad=false --expt-relaxed-constexpr -diag-suppress=2810>"
            "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -ffp-contract=off,-fno-math-errno,-fvisibility=hidden>")
  if(PHASOR_SPILLS_ARE_ERRORS)
    set(gate ${PHASOR_PTXAS_GATE})
  else()
    set(gate ${PHASOR_PTXAS_WARNINGS})
  endif()
  string(REPLACE ";" " " gate "${gate}")
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:${gate}>")
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
endfunction()

# phasor_cuda_library(NAME cudart SRCS a.cu DEPS phasor::cuda) → phasor::cudart
function(phasor_cuda_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  set(target phasor_${ARG_NAME})
  add_library(${target} STATIC ${ARG_SRCS})
  phasor_cuda_flags(${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${ARG_NAME})
  target_link_libraries(${target} PUBLIC ${ARG_DEPS})
  add_library(phasor::${ARG_NAME} ALIAS ${target})
  # Programs of an installed tree know nothing of CUDA: they get the static runtime with it.
  find_library(PHASOR_CUDART_STATIC cudart_static REQUIRED
               PATHS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} NO_DEFAULT_PATH)
  target_link_libraries(${target} INTERFACE $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/lib/libcudart_static.a>
                                            $<INSTALL_INTERFACE:dl> $<INSTALL_INTERFACE:rt> $<INSTALL_INTERFACE:pthread>)
  install(FILES ${PHASOR_CUDART_STATIC} DESTINATION lib COMPONENT kernels)
  install(TARGETS ${target} EXPORT PhasorTargets ARCHIVE DESTINATION lib COMPONENT kernels)
endfunction()
