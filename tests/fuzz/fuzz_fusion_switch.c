/* fusion_switch_file, both forms: rules, or one error with a place in the file. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_rules(data, size, ht_fusion_switch_parse);
}
