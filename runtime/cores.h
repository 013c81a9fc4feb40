/* Cores of devices: a device is a NUMA node of this machine that has cores, by the node's number
 * (Linux, Documentation/ABI/stable/sysfs-devices-node). */
#ifndef HT_RUNTIME_CORES_H
#define HT_RUNTIME_CORES_H

#include <sched.h>
#include <stdbool.h>

struct ht_cores {
	cpu_set_t set;
};

#define HT_NODES "/sys/devices/system/node"
enum { HT_MOST_DEVICES = 1024 };
/* Those of a device, by a folder as HT_NODES; false: there is no such device. */
bool ht_device_cores(const char *nodes, int device, struct ht_cores *out);
/* Has the calling thread run on `on`; *before is where it may run now, for ht_cores_leave(). */
void ht_cores_enter(const struct ht_cores *on, struct ht_cores *before);
void ht_cores_leave(const struct ht_cores *on, const struct ht_cores *before);

#endif
