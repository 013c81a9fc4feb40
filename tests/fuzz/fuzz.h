/* The functions that libFuzzer and replay.c call. */
#ifndef HT_FUZZ_H
#define HT_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
