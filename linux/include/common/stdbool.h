/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What lookaside.h takes from the C library, which a kernel does not have.
 */
#include <linux/types.h>
