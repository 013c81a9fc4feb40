/* Devices of the machine. */
#include "api/device.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PREFERRED = 1 /* MPOL_PREFERRED of set_mempolicy(2) */ };

/* "2: 0, 1" */
static enum ht_status refuse(int32_t device, struct ht_diags *d)
{
	char list[256];
	size_t at = 0;
	struct ht_cores cores;
	int n = 0;

	for (int i = 0; i < HT_MOST_DEVICES; i++)
		if (ht_device_cores(HT_NODES, i, &cores)) {
			if (at < sizeof list - 16)
				at += (size_t)snprintf(list + at, 16, "%s%d", n ? ", " : ": ", i);
			n++;
		}
	return ht_refuse(d, HT_E_ENVIRONMENT,
		"there is no device %d: a device is a NUMA node with cores, and this machine has %d%.*s",
		(int)device, n, (int)at, list);
}

enum ht_status ht_device_find(int32_t device, struct ht_cores *out, struct ht_diags *d)
{
	struct ht_cores allowed;

	if (!ht_device_cores(HT_NODES, device, out))
		return refuse(device, d);
	if (sched_getaffinity(0, sizeof allowed.set, &allowed.set) == 0)
		CPU_AND(&out->set, &out->set, &allowed.set);
	if (!CPU_COUNT(&out->set))
		return ht_refuse(d, HT_E_ENVIRONMENT,
			"device %d: this process may not run on its cores", (int)device);
	return HT_OK;
}

enum ht_status ht_use_device(int32_t device, struct ht_diags *d)
{
	unsigned long nodes[HT_MOST_DEVICES / (8 * sizeof(unsigned long))] = { 0 };
	const size_t word = 8 * sizeof *nodes;
	struct ht_cores cores;

	HT_TRY(ht_device_find(device, &cores, d));
	if (sched_setaffinity(0, sizeof cores.set, &cores.set) != 0)
		return ht_refuse(d, HT_E_ENVIRONMENT,
			"device %d: this process may not run on its cores: %s", (int)device,
			strerror(errno));
	nodes[(size_t)device / word] = 1UL << (size_t)device % word;
	/* This may fail: memory of another device is only slower. */
	syscall(SYS_set_mempolicy, PREFERRED, nodes, (unsigned long)HT_MOST_DEVICES);
	return HT_OK;
}
