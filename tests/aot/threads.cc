// The same program, compiled as C++.
#include "threads.c"
