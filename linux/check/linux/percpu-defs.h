/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * In the place of Linux's header where the overlay's declarations are compiled without it.
 */
#ifndef LOOKASIDE_CHECK_PERCPU_DEFS_H
#define LOOKASIDE_CHECK_PERCPU_DEFS_H
#define DECLARE_PER_CPU(type, name) extern type name
#endif
