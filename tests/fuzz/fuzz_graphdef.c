/* GraphDef and MetaGraphDef in wire format: refused with a diagnostic, or exported unchanged. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_import(data, size, "x.pb");
}
