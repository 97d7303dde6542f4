# Package configuration of the installed kernels library:
#   find_package(Phasor CONFIG REQUIRED)
#   target_link_libraries(my_program PRIVATE phasor::kernels)
# Needs C++20, Abseil and Highway; neither gRPC nor protobuf.
include(CMakeFindDependencyMacro)
find_dependency(absl CONFIG)
find_dependency(hwy CONFIG)
include(${CMAKE_CURRENT_LIST_DIR}/PhasorTargets.cmake)
