# Sanitizers go to everything but the victims, which must make only the system calls that they are written to make.
if(SANDBOX_RUN_SANITIZE)
  add_compile_options(-fsanitize=${SANDBOX_RUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SANDBOX_RUN_SANITIZE})
endif()
