/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What lookaside.h takes from the C library, which a kernel does not have.
 */
#ifndef LOOKASIDE_LINUX_STDINT_H
#define LOOKASIDE_LINUX_STDINT_H
#include <linux/types.h>
#define UINT64_MAX (~0ULL)
#endif
