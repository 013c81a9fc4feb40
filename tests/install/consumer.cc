// The same program, compiled as C++.
#include "consumer.c"
