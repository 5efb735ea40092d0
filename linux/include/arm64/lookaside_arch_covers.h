/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the overlay was not written for on arm64.
 */
#ifdef CONFIG_ARM64_SW_TTBR0_PAN
#error "lookaside: software PAN writes TTBR0_EL1 itself: set CONFIG_ARM64_SW_TTBR0_PAN=n"
#endif
#if CONFIG_ARM64_VA_BITS > 48 || CONFIG_ARM64_PA_BITS > 48
#error "lookaside: addresses of 52 bits are not covered: set CONFIG_ARM64_VA_BITS_48=y and CONFIG_ARM64_PA_BITS_48=y"
#endif
#ifdef CONFIG_COMPAT
#error "lookaside: programs of 32 bits are not covered (an erratum flushes in sys_compat.c): set CONFIG_COMPAT=n"
#endif
