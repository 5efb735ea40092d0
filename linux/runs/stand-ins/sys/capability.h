/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * In place of libcap's, which Debian has for no cross compiler: a set without capabilities, and what makes it the process's.
 */
#ifndef STAND_IN_CAPABILITY_H
#define STAND_IN_CAPABILITY_H

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/capability.h>

typedef struct __user_cap_data_struct *cap_t;

static inline cap_t cap_init(void)
{
	return calloc(2, sizeof(struct __user_cap_data_struct));
}

static inline int cap_set_proc(cap_t set)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capset, &header, set);
}

#endif
