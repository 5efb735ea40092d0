/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * In place of libnuma's: see numa.h.
 */
#include <errno.h>

#define MPOL_MF_MOVE_ALL 4

static inline long move_pages(int process, unsigned long count, void **page, const int *node, int *status, int flags)
{
	(void)process, (void)count, (void)page, (void)node, (void)status, (void)flags;
	errno = ENOSYS;
	return -1;
}
