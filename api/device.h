/* Internal: the cores of a device. */
#ifndef HT_API_DEVICE_H
#define HT_API_DEVICE_H

#include "api/api.h"
#include "runtime/cores.h"

/* The cores of the device on which the calling thread may run.  HT_E_ENVIRONMENT: there is no
 * such device, or none of its cores may be used. */
enum ht_status ht_device_find(int32_t device, struct ht_cores *out, struct ht_diags *d);

#endif
