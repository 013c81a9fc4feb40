/* fault: the texts of the reasons why a run stops. */
#include "base/fault.h"

#define HT_OF_KERNEL(name, number, net, text) #number " " text "\0"
#define HT_OF_RUN(name, number, net, text) #number " " text "\0"
#define HT_OF_CALLER(name, number, net, text) #number " " text "\0"
#define HT_OF_SENTENCE(name, number, text) #number " " text "\0"
const char ht_fault_texts[] =
#include "base/fault.def"
	;
