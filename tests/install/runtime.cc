// The same program, compiled as C++.
#include "runtime.c"
