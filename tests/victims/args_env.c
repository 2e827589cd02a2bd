// Very many and very long arguments (elfuse#125).
//   args_env drive      starts itself with each extreme and prints what arrived, or the error of execve
//   args_env show ARG…  prints number and total length of the arguments and the number of variables
#include <sys/wait.h>

#include "victim.h"

extern char** environ;

static int show(int argc, char** argv, int first) {
  size_t length = 0;
  for (int i = first; i < argc; ++i) length += strlen(argv[i]);
  int variables = 0;
  for (char** one = environ; *one; ++one) ++variables;
  printf("%d arguments, %zu bytes, %d variables\n", argc - first, length, variables);
  return 0;
}

static void run(const char* what, const char* self, char** arguments, char** variables) {
  printf("%s: ", what);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execve(self, arguments, variables);
    const int error = errno;
    printf("%s\n", strerrorname_np(error));
    fflush(stdout);
    _exit(1);
  }
  waitpid(child, NULL, 0);
}

static char* text_of(size_t length) {
  char* text = malloc(length + 1);
  if (!text) exit(1);
  memset(text, 'x', length);
  text[length] = 0;
  return text;
}

int main(int argc, char** argv) {
  // Linux 5.18 and newer turn an empty argv into one empty string; older ones give argc 0.
  if (argc == 0 || argv[0][0] == 0) {
    puts("started without arguments");
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "show") == 0) return show(argc, argv, 2);
  const char* self = argv[0];
  char* few[] = {"A=1", NULL};
  char** many = calloc(5003, sizeof *many);
  many[0] = (char*)self;
  many[1] = "show";
  for (int i = 0; i < 5000; ++i) many[i + 2] = "argument";
  run("5000 arguments", self, many, few);
  // MAX_ARG_STRLEN is 32 pages with the terminating zero.
  run("one of 131071 bytes", self, (char*[]){(char*)self, "show", text_of(131071), NULL}, few);
  run("one of 131072 bytes", self, (char*[]){(char*)self, "show", text_of(131072), NULL}, few);
  for (int i = 0; i < 1500; ++i) many[i + 2] = text_of(1000);
  many[1502] = NULL;
  run("1.5 MB in all", self, many, few);
  run("an empty argument", self, (char*[]){(char*)self, "show", "", NULL}, few);
  run("no argument at all", self, (char*[]){NULL}, few);
  char** variables = calloc(3001, sizeof *variables);
  for (int i = 0; i < 3000; ++i) {
    variables[i] = malloc(32);
    snprintf(variables[i], 32, "VARIABLE_%d=value", i);
  }
  run("3000 variables", self, (char*[]){(char*)self, "show", NULL}, variables);
  puts("end");
  return 0;
}
