/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * In the place of Linux's header where the overlay's declarations are compiled without it.
 */
#undef NULL
#define NULL ((void *)0)
