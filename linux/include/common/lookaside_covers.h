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
#ifndef CONFIG_ARM64 /* what was seen there alone */
#ifdef CONFIG_EFI
#error "lookaside: EFI runtime services load roots of their own: set CONFIG_EFI=n"
#endif
#ifdef CONFIG_IOMMU_SVA
#error "lookaside: pinned ASIDs for devices are not covered: set CONFIG_IOMMU_SVA=n"
#endif
#ifdef CONFIG_MODULES
#error "lookaside: modules are not covered: set CONFIG_MODULES=n"
#endif
#endif
#include <lookaside_arch_covers.h>
