/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the overlay was written for. Anything else is refused when it is compiled.
 */
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#error "lookaside: the overlay is for Linux 6.12, and this is another version"
#endif
#ifndef CONFIG_SMP
#error "lookaside: the overlay is for CONFIG_SMP=y"
#endif
#ifdef CONFIG_EFI
#ifdef CONFIG_ARM64
#error "lookaside: EFI runtime services load roots of their own (efi_set_pgd): set CONFIG_EFI=n"
#endif
#endif
#ifdef CONFIG_ARM64_SW_TTBR0_PAN
#error "lookaside: software PAN writes TTBR0_EL1 itself: set CONFIG_ARM64_SW_TTBR0_PAN=n"
#endif
#if defined(CONFIG_ARM64) && (CONFIG_ARM64_VA_BITS > 48 || CONFIG_ARM64_PA_BITS > 48)
#error "lookaside: addresses of 52 bits are not covered: set CONFIG_ARM64_VA_BITS_48=y and CONFIG_ARM64_PA_BITS_48=y"
#endif
#ifdef CONFIG_IOMMU_SVA
#error "lookaside: pinned ASIDs for devices are not covered: set CONFIG_IOMMU_SVA=n"
#endif
#ifdef CONFIG_COMPAT
#error "lookaside: programs of 32 bits are not covered (an erratum flushes in sys_compat.c): set CONFIG_COMPAT=n"
#endif
#ifdef CONFIG_MODULES
#error "lookaside: modules are not covered, since nothing is exported to them: set CONFIG_MODULES=n"
#endif
