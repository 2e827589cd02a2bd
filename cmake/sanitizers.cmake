# Sanitizers go to everything but the victims, which must make only the system calls that they are written to make.
if(SANDBOX_RUN_SANITIZE)
  add_compile_options(-fsanitize=${SANDBOX_RUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SANDBOX_RUN_SANITIZE})
endif()
# Coverage for the libFuzzer targets (tests/fuzz), which link libFuzzer's own main.
if(SANDBOX_RUN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "SANDBOX_RUN_FUZZ needs Clang; use the preset \"fuzz\"")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
