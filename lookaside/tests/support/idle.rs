// What an `Mmu` of a test answers where nothing depends on the answer.
//
// Macros, because the methods of a trait cannot be inherited: each test's hardware acts in some of
// them and is idle in the others. No inner documentation, so that the file can be included.

/// Hardware with tags of its own that takes any CPU and any root, and has nothing to settle.
#[allow(unused_macros, reason = "not every test wants both")]
macro_rules! idle_admission {
    () => {
        type Features = ();

        fn sharing(&self) -> ::lookaside::arch::Sharing {
            ::lookaside::arch::Sharing::Private
        }

        fn admit(&self, (): &()) -> Result<::lookaside::arch::Errata, ::lookaside::Error> {
            Ok(::lookaside::arch::Errata::NONE)
        }

        fn check_root(&self, _: ::lookaside::arch::Root) -> Result<(), ::lookaside::Error> {
            Ok(())
        }

        #[inline]
        fn settle(&self) {}
    };
}

/// Hardware with nothing of the kernel to flush, where everything costs the same.
macro_rules! idle_kernel {
    () => {
        fn flush_kernel(
            &self,
            _: ::lookaside::arch::Errata,
            _: &[::lookaside::VaRange],
            _: ::lookaside::arch::TableChange,
        ) {
        }

        fn flush_kernel_broadcast(
            &self,
            _: ::lookaside::arch::Errata,
            _: &[::lookaside::VaRange],
            _: ::lookaside::arch::TableChange,
        ) {
        }

        fn typical_costs(&self) -> ::lookaside::platform::Costs {
            let each = ::lookaside::platform::OperationCosts { address: 1, tag: 1, wait: 1 };
            ::lookaside::platform::Costs {
                local: each,
                broadcast: each,
                refill: 1,
                useful_entries: 1,
                ipi: 1,
                ipi_more: 1,
                retag: 3,
            }
        }
    };
}
