/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the overlay was not written for on riscv.
 */
#ifndef CONFIG_64BIT
#error "lookaside: the overlay is for harts of 64 bits: set CONFIG_64BIT=y"
#endif
#ifndef CONFIG_MMU
#error "lookaside: there is nothing to flush without an MMU: set CONFIG_MMU=y"
#endif
