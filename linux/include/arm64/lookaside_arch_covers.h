/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the overlay was not written for on arm64.
 */
#ifdef CONFIG_ARM64_SW_TTBR0_PAN
#error "lookaside: software PAN writes TTBR0_EL1 itself: set CONFIG_ARM64_SW_TTBR0_PAN=n"
#endif
