/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * In place of libnuma's, which Debian has for no cross compiler: a machine without nodes, as the one that is booted.
 */
#ifndef STAND_IN_NUMA_H
#define STAND_IN_NUMA_H

#include <stddef.h>

struct bitmask {
	unsigned long size;
};
static struct bitmask *const numa_all_nodes_ptr;

static inline int numa_available(void)
{
	return -1;
}

static inline int numa_max_node(void)
{
	return 0;
}

static inline int numa_max_possible_node(void)
{
	return 0;
}

static inline int numa_num_task_cpus(void)
{
	return 1;
}

static inline int numa_bitmask_isbitset(const struct bitmask *mask, unsigned int node)
{
	(void)mask, (void)node;
	return 0;
}

static inline long long numa_node_size(int node, long long *unused)
{
	(void)node, (void)unused;
	return -1;
}

static inline void *numa_alloc_onnode(size_t bytes, int node)
{
	(void)bytes, (void)node;
	return NULL;
}

static inline void numa_free(void *memory, size_t bytes)
{
	(void)memory, (void)bytes;
}

#endif
