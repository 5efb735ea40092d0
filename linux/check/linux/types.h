/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * In the place of Linux's header where the overlay's declarations are compiled without it.
 */
#ifndef LOOKASIDE_CHECK_TYPES_H
#define LOOKASIDE_CHECK_TYPES_H
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef _Bool bool;
#endif
