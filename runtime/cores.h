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
/* The cores of a device; `nodes` is a folder like HT_NODES. False: there is no such device. */
bool ht_device_cores(const char *nodes, int device, struct ht_cores *out);
/* Confines the calling thread to `on`. *before becomes its previous set, for ht_cores_leave(). */
void ht_cores_enter(const struct ht_cores *on, struct ht_cores *before);
void ht_cores_leave(const struct ht_cores *on, const struct ht_cores *before);

#endif
