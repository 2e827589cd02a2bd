# One interface target carries the warnings; -Werror only in developer presets so that a newer compiler never breaks a user's build.
add_library(srun_warnings INTERFACE)
target_compile_options(srun_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wimplicit-fallthrough
  -Wno-missing-field-initializers)
if(SANDBOX_RUN_WERROR)
  target_compile_options(srun_warnings INTERFACE -Werror)
endif()
target_include_directories(srun_warnings INTERFACE ${CMAKE_SOURCE_DIR}/src)
