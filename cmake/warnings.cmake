# One interface target carries the warnings; -Werror only in developer presets so that a newer compiler never breaks a user's build.
add_library(srun_warnings INTERFACE)
target_compile_options(srun_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wimplicit-fallthrough
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: `"text" + std::string` is taken for an overlapping copy when optimising.
  target_compile_options(srun_warnings INTERFACE -Wno-restrict)
endif()
if(SANDBOX_RUN_WERROR)
  target_compile_options(srun_warnings INTERFACE -Werror)
endif()
target_include_directories(srun_warnings INTERFACE ${CMAKE_SOURCE_DIR}/src)
