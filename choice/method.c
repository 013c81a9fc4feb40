/* Names and texts of methods, and of the reasons for choosing them. */
#include "choice/method.h"

const struct ht_method_info ht_method_info[HT_METHOD_END] = {
#define METHOD(id, name, ask) { name, ask },
#define REASON(id, name, is, limit)
#include "choice/methods.def"
};
const struct ht_reason_info ht_reason_info[HT_REASON_END] = {
#define METHOD(id, name, ask)
#define REASON(id, name, is, limit) { name, is, limit },
#include "choice/methods.def"
};
