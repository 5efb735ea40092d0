/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the overlay was not written for on x86-64.
 */
#ifndef CONFIG_X86_64
#error "lookaside: the overlay is for CPUs of 64 bits: set CONFIG_64BIT=y"
#endif
#ifdef CONFIG_PARAVIRT
#error "lookaside: flushes by a hypervisor are not covered: set CONFIG_PARAVIRT=n"
#endif
#ifdef CONFIG_MODIFY_LDT_SYSCALL
#error "lookaside: local descriptor tables are not covered: set CONFIG_MODIFY_LDT_SYSCALL=n"
#endif
#ifdef CONFIG_ADDRESS_MASKING
#error "lookaside: the library loads CR3 without address masking: set CONFIG_ADDRESS_MASKING=n"
#endif
#ifdef CONFIG_AMD_MEM_ENCRYPT
#error "lookaside: roots with an encryption bit are not covered: set CONFIG_AMD_MEM_ENCRYPT=n"
#endif
#if defined(CONFIG_KEXEC_CORE) || defined(CONFIG_SUSPEND) || defined(CONFIG_HIBERNATION) || defined(CONFIG_KVM)
#error "lookaside: kexec, suspend and KVM write CR3 themselves: set CONFIG_KEXEC=n, _SUSPEND=n, _HIBERNATION=n, _KVM=n"
#endif
