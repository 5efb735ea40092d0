/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * lookaside.h, whose structs are as large as Linux's number of CPUs asks.
 */
#ifndef LOOKASIDE_MAX_CPUS
#define LOOKASIDE_MAX_CPUS CONFIG_NR_CPUS
#endif
#include <lookaside.h>
