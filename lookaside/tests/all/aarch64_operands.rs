//! Operands, register values, descriptors and the decoding of ID registers, against values worked
//! out by hand from the manual's field tables.

use lookaside::{
    Error,
    arch::aarch64::{
        AddressSize, Bbm, Features, Geometry, Granule, HardwareUpdates, IdRegisters, Level,
        Support,
        descriptor::{self, Attributes},
        registers::{
            self, TCR_A1, TCR_AS, TCR_DS, TCR_EPD0, geometry_of, pa_bits_of, root_bytes_of,
            stage2_root_bytes_of, tag_bits_of, tcr, ttbr, upper_geometry_of, vmid_bits_of,
        },
        tlbi::{Span, by_address, by_asid, by_range, range_ttl, ttl},
    },
};
use proptest::prelude::*;

const K4: Geometry = Geometry::new(Granule::K4, AddressSize::Bits48);
const K4_LPA2: Geometry = Geometry::new(Granule::K4, AddressSize::Bits52);
const K16: Geometry = Geometry::new(Granule::K16, AddressSize::Bits48);
const K16_LPA2: Geometry = Geometry::new(Granule::K16, AddressSize::Bits52);
const K64: Geometry = Geometry::new(Granule::K64, AddressSize::Bits48);
const K64_LPA: Geometry = Geometry::new(Granule::K64, AddressSize::Bits52);

// ---- TLBI operands

/// The bug: VA[59:56] of a kernel address, shifted and not masked, land in bits 47:44, and a CPU
/// with FEAT_TTL takes them for granule 64 KiB, level 3, and invalidates nothing.
#[test]
fn sign_bits_of_a_kernel_address_do_not_reach_the_level_hint() {
    let operand = by_address(K4, 0, 0xffff_ffff_ffff_f000, None);
    assert_eq!(operand >> 44 & 0xf, 0);
    assert_eq!(operand, 0x0000_0fff_ffff_ffff);
    let tagged = by_address(K4, 0x12, 0xab00_0000_0040_0000, None);
    assert_eq!(tagged, 0x0012_0000_0000_0400, "the tag byte of the address is dropped");
}

#[test]
fn by_address_puts_each_field_in_its_place() {
    let operand = by_address(K64, 0xbeef, 0x0001_2345_6789_0000, Some(Level::L3));
    assert_eq!(operand, 0xbeef << 48 | 0b1111 << 44 | 0x0012_3456_7890);
}

#[test]
fn asid_16_eight_bit_asids_leave_the_upper_half_of_the_field_zero() {
    for asid in 0..=0xff {
        assert_eq!(by_asid(asid) >> 56, 0);
        assert_eq!(by_asid(asid), u64::from(asid) << 48);
        assert_eq!(by_address(K4, asid, u64::MAX, None) >> 56, 0);
    }
}

#[test]
fn hints_name_only_levels_that_the_granule_has() {
    let legal = [
        (K4, [None, Some(0b0101), Some(0b0110), Some(0b0111)]),
        (K4_LPA2, [Some(0b0100), Some(0b0101), Some(0b0110), Some(0b0111)]),
        (K16, [None, None, Some(0b1010), Some(0b1011)]),
        (K16_LPA2, [None, Some(0b1001), Some(0b1010), Some(0b1011)]),
        (K64, [None, None, Some(0b1110), Some(0b1111)]),
        (K64_LPA, [None, Some(0b1101), Some(0b1110), Some(0b1111)]),
    ];
    for (geometry, expected) in legal {
        for (level, expected) in
            [Level::L0, Level::L1, Level::L2, Level::L3].into_iter().zip(expected)
        {
            assert_eq!(ttl(geometry, Some(level)), expected.unwrap_or(0), "{geometry:?} {level:?}");
            assert_eq!(range_ttl(geometry, Some(level)), expected.unwrap_or(0) & 3);
            assert_eq!(geometry.leaf_shift(level).is_some(), expected.is_some());
        }
        assert_eq!((ttl(geometry, None), range_ttl(geometry, None)), (0, 0));
    }
}

#[test]
fn by_range_puts_each_field_in_its_place() {
    let span = Span::widest_within(10 << 11).unwrap();
    let operand = by_range(K16, 0x0102, 0x4000 * 0x15, span, Some(Level::L2));
    // Ten units of 2^11 pages: SCALE 2, NUM 9.
    assert_eq!(operand, 0x0102 << 48 | 0b10 << 46 | 2 << 44 | 9 << 39 | 0b10 << 37 | 0x15);
    let operand = by_range(K4_LPA2, 0, 0xffff_8000_0003_0000, span, None);
    assert_eq!(operand, 0b01 << 46 | 2 << 44 | 9 << 39 | 0x1f_8000_0003);
}

#[test]
fn spans_are_the_widest_that_fit() {
    assert_eq!(Span::widest_within(0), None);
    assert_eq!(Span::widest_within(1), None);
    for pages in 2..=1 << 17 {
        let span = Span::widest_within(pages).unwrap().pages();
        assert!(span <= pages && span * 2 > pages - span % 2 - 1, "{pages}: {span}");
    }
    assert_eq!(Span::widest_within(u64::MAX), Some(Span::WIDEST));
}

// ---- Registers

#[test]
fn asid_02_constants_do_not_overflow_32_bits() {
    assert_eq!(TCR_AS, 1 << 36);
    assert_eq!(TCR_A1, 1 << 22);
    assert_eq!(TCR_EPD0, 1 << 7);
    assert_eq!(TCR_DS, 1 << 59);
    assert_eq!(registers::TCR_IPS.trailing_zeros(), 32);
}

#[test]
fn asid_01_tcr_follows_asid_bits_and_02_pa_range() {
    // T0SZ 16, write-back, inner shareable, 4 KiB; T1SZ 16, TG1 4 KiB.
    let base = 0xb510_3510;
    for (pa_range, bits, ips) in
        [(0, 32, 0), (1, 36, 1), (2, 40, 2), (3, 42, 3), (4, 44, 4), (5, 48, 5), (6, 48, 5)]
    {
        for (asid_bits, tag_bits, tag_flag) in [(0, 8, 0), (2, 16, TCR_AS), (1, 8, 0), (15, 8, 0)] {
            let mmfr0 = asid_bits << 4 | pa_range;
            let features = Features::decode(IdRegisters { mmfr0, ..Default::default() });
            // What the kernel had in those fields does not matter.
            for noise in [0, registers::TCR_IPS | TCR_AS] {
                let value = tcr(base | noise, &features);
                assert_eq!(value, base | ips << 32 | tag_flag);
                assert_eq!(pa_bits_of(value), bits);
                assert_eq!(tag_bits_of(value), tag_bits);
            }
        }
    }
}

#[test]
fn tcr_uses_52_bits_only_where_descriptors_have_them() {
    let features = Features::decode(IdRegisters { mmfr0: 6, ..Default::default() });
    let tg0_64k = 0b01 << 14;
    assert_eq!(pa_bits_of(tcr(tg0_64k, &features)), 52);
    assert_eq!(pa_bits_of(tcr(TCR_DS, &features)), 52);
    assert_eq!(pa_bits_of(tcr(0, &features)), 48);
}

#[test]
fn asid_03_tag_width_is_what_the_register_holds() {
    assert_eq!(tag_bits_of(0), 8);
    assert_eq!(tag_bits_of(!TCR_AS), 8);
    assert_eq!(tag_bits_of(TCR_AS), 16);
    assert_eq!(vmid_bits_of(0), 8);
    assert_eq!(vmid_bits_of(1 << 19), 16);
}

#[test]
fn ttbr_splits_52_bit_addresses() {
    assert_eq!(ttbr(0x4_5678_9000, 0xabcd), 0xabcd_0004_5678_9000);
    assert_eq!(ttbr(0x000f_0000_1234_5640, 0), 0x0000_0000_1234_567c);
    assert_eq!(ttbr(0x0001_0000_0000_0000, 1), 0x0001_0000_0000_0004);
}

#[test]
fn granules_are_coded_differently_in_the_two_halves() {
    for (tg0, tg1, granule) in
        [(0b00, 0b10, Granule::K4), (0b10, 0b01, Granule::K16), (0b01, 0b11, Granule::K64)]
    {
        let value = tg0 << 14 | tg1 << 30;
        assert_eq!(geometry_of(value).unwrap().granule, granule);
        assert_eq!(upper_geometry_of(value).unwrap().granule, granule);
    }
    assert_eq!(geometry_of(0b11 << 14), None);
    assert_eq!(upper_geometry_of(0), None);
    let wide = |value| geometry_of(value).unwrap().addresses == AddressSize::Bits52;
    assert!(wide(TCR_DS) && !wide(6 << 32));
    assert!(wide(0b01 << 14 | 6 << 32) && !wide(0b01 << 14 | 5 << 32));
}

#[test]
fn root_tables_have_the_size_that_t0sz_leaves_them() {
    let bytes = |t0sz: u64, tg0: u64| root_bytes_of(t0sz | tg0 << 14).unwrap();
    assert_eq!(bytes(16, 0b00), 4096); // 48 bits: 36 = 4 * 9
    assert_eq!(bytes(25, 0b00), 4096); // 39 bits: 27 = 3 * 9
    assert_eq!(bytes(24, 0b00), 64); // 40 bits: one bit at level 0, two entries
    assert_eq!(bytes(12, 0b00), 128); // 52 bits: four bits at level -1
    assert_eq!(bytes(16, 0b10), 64); // 48 bits, 16 KiB: one bit at level 0
    assert_eq!(bytes(17, 0b10), 16384); // 47 bits: 33 = 3 * 11
    assert_eq!(bytes(16, 0b01), 512); // 48 bits, 64 KiB: six bits at level 1
    assert_eq!(bytes(22, 0b01), 65536); // 42 bits: 26 = 2 * 13
}

#[test]
fn stage_2_root_tables_may_be_concatenated() {
    // 40 bits, 4 KiB: from level 1, ten bits, two tables.
    assert_eq!(stage2_root_bytes_of(24 | 1 << 6), Some(8192));
    // 40 bits from level 0: one bit, two entries.
    assert_eq!(stage2_root_bytes_of(24 | 2 << 6), Some(64));
    // 44 bits from level 1: fourteen bits are more than sixteen tables.
    assert_eq!(stage2_root_bytes_of(20 | 1 << 6), None);
    // 42 bits, 64 KiB: from level 2, thirteen bits.
    assert_eq!(stage2_root_bytes_of(22 | 1 << 6 | 0b01 << 14), Some(65536));
    assert_eq!(stage2_root_bytes_of(0b11 << 14), None);
    // 52 bits, 4 KiB: from level -1, four bits.
    assert_eq!(stage2_root_bytes_of(12 | 1 << 32 | 1 << 33), Some(128));
}

// ---- Features

#[test]
fn features_are_read_from_their_fields() {
    // Neoverse-V2-like values.
    let features = Features::decode(IdRegisters {
        midr: 0x410f_d4f1,
        mmfr0: 0x0000_0111_0010_1125 | 5 << 60,
        mmfr1: 0x0000_0020_0000_0022,
        mmfr2: 0x0021_0000_0000_0001,
        mmfr3: 0,
        isar0: 0x0210_0000_0000_0000,
    });
    assert_eq!((features.asid_bits, features.vmid_bits, features.pa_bits), (16, 16, 48));
    assert!(features.range_ops && features.outer_shareable_ops);
    assert!(features.level_hints && features.cnp && features.ets2 && !features.d128);
    assert_eq!(features.bbm, Bbm::Level2);
    assert_eq!(features.hardware_updates, HardwareUpdates::AccessedAndDirty);
    assert_eq!(features.stage1.k4, Support::Bits48);
    assert_eq!(features.stage1.k16, Support::Bits48);
}

#[test]
fn nothing_is_assumed_of_a_cpu_that_says_nothing() {
    let features = Features::decode(IdRegisters::default());
    assert_eq!((features.asid_bits, features.vmid_bits, features.pa_bits), (8, 8, 32));
    assert!(!features.range_ops && !features.outer_shareable_ops && !features.level_hints);
    assert!(!features.cnp && !features.ets2 && !features.d128);
    assert_eq!(features.bbm, Bbm::Level0);
    assert_eq!(features.hardware_updates, HardwareUpdates::None);
    assert_eq!(features.stage1.k16, Support::No);
    assert_eq!(features.stage2, features.stage1);
}

#[test]
fn unknown_values_fall_back_to_the_safer_reading() {
    let id = |mmfr0, mmfr1, isar0| {
        Features::decode(IdRegisters { mmfr0, mmfr1, isar0, ..Default::default() })
    };
    assert_eq!(id(1 << 4, 0, 0).asid_bits, 8);
    assert_eq!(id(3 << 4, 0, 0).asid_bits, 8);
    assert_eq!(id(9, 0, 0).pa_bits, 32);
    assert_eq!(id(7, 0, 0).pa_bits, 52);
    // ETS = 1 is the feature that was withdrawn.
    assert!(!id(0, 1 << 36, 0).ets2);
    assert!(id(0, 2 << 36, 0).ets2 && id(0, 3 << 36, 0).ets2);
    // TLB = 1 has outer-shareable instructions and no ranges.
    assert!(!id(0, 0, 1 << 56).range_ops && id(0, 0, 1 << 56).outer_shareable_ops);
    assert!(id(0, 0, 3 << 56).range_ops);
    // Signed fields: every negative value is "not implemented".
    assert_eq!(id(0xf << 28, 0, 0).stage1.k4, Support::No);
    assert_eq!(id(0x8 << 28, 0, 0).stage1.k4, Support::No);
    assert_eq!(id(0x1 << 28, 0, 0).stage1.k4, Support::Bits52);
    assert_eq!(id(0xf << 24, 0, 0).stage1.k64, Support::No);
    assert_eq!(id(6, 0, 0).stage1.k64, Support::Bits52);
    assert_eq!(id(2 << 20, 0, 0).stage1.k16, Support::Bits52);
    // Stage 2 may have less than stage 1, or say "the same".
    assert_eq!(id(1 << 28 | 2 << 40, 0, 0).stage2.k4, Support::Bits48);
    assert_eq!(id(1 << 28, 0, 0).stage2.k4, Support::Bits52);
    assert_eq!(id(1 << 28 | 1 << 40, 0, 0).stage2.k4, Support::No);
}

// ---- Descriptors

const ALL_GEOMETRIES: [Geometry; 6] = [K4, K4_LPA2, K16, K16_LPA2, K64, K64_LPA];
const LEVELS: [Level; 4] = [Level::L0, Level::L1, Level::L2, Level::L3];

#[test]
fn asid_04_every_user_page_and_block_is_not_global() {
    for geometry in ALL_GEOMETRIES {
        for level in LEVELS {
            for lower in [0, 0xfff, u64::MAX] {
                for upper in [0, u64::MAX] {
                    let attributes = Attributes { lower, upper };
                    let Ok(leaf) = descriptor::user_leaf(geometry, level, 0, attributes) else {
                        assert_eq!(geometry.leaf_shift(level), None);
                        continue;
                    };
                    assert_ne!(leaf & 1 << 11, 0, "{geometry:?} {level:?}");
                    assert_ne!(leaf & 1 << 10, 0, "an entry without AF always faults");
                    assert!(!descriptor::leaks_between_tags(level, leaf));
                    assert_eq!(
                        descriptor::output_of(geometry, leaf),
                        0,
                        "attributes are no address"
                    );
                }
            }
        }
    }
}

#[test]
fn asid_04_the_identity_map_is_not_global_either() {
    let attributes = Attributes::memory(1).with(descriptor::INNER_SHAREABLE);
    let mut table = [0; 512];
    descriptor::identity_map(K4, Level::L1, 0x40_0000_0000, attributes, &mut table).unwrap();
    for (i, &entry) in table.iter().enumerate() {
        assert_eq!(entry, (0x100 + i as u64) << 30 | 0xf05, "block {i}");
        assert!(!descriptor::leaks_between_tags(Level::L1, entry));
    }
    let beyond = descriptor::identity_map(K4, Level::L1, 0xffff_c000_0000, attributes, &mut table);
    assert_eq!(beyond, Err(Error::BadRoot { address: 0x1_0000_0000_0000 }));
}

#[test]
fn a_global_leaf_is_recognised_and_a_table_is_not_a_leaf() {
    let page = descriptor::kernel_leaf(K4, Level::L3, 0x1000, Attributes::default()).unwrap();
    assert_eq!(page, 0x1403);
    assert!(descriptor::leaks_between_tags(Level::L3, page));
    let block = descriptor::kernel_leaf(K4, Level::L2, 0x20_0000, Attributes::default()).unwrap();
    assert_eq!(block, 0x20_0401);
    assert!(descriptor::leaks_between_tags(Level::L2, block));
    let table = descriptor::table(K4, 0x7000, 0).unwrap();
    assert_eq!(table, 0x7003);
    assert!(!descriptor::leaks_between_tags(Level::L2, table));
    assert!(!descriptor::leaks_between_tags(Level::L3, 0));
}

#[test]
fn attributes_reach_the_descriptor_unchanged() {
    let attributes = Attributes::memory(3)
        .with(descriptor::USER | descriptor::READ_ONLY | descriptor::INNER_SHAREABLE)
        .with(descriptor::DIRTY_BIT_MODIFIER | descriptor::CONTIGUOUS)
        .with(descriptor::PRIVILEGED_EXECUTE_NEVER | descriptor::USER_EXECUTE_NEVER);
    let page = descriptor::user_leaf(K4, Level::L3, 0x1234_5000, attributes).unwrap();
    assert_eq!(page, 0x0078_0000_1234_5fcf);
}

#[test]
fn a_guarded_page_is_guarded_with_addresses_of_any_size() {
    let guarded = Attributes::default().with(1 << 50);
    for geometry in ALL_GEOMETRIES {
        let page = descriptor::user_leaf(geometry, Level::L3, 0, guarded).unwrap();
        assert_eq!((page >> 50, descriptor::output_of(geometry, page)), (1, 0), "{geometry:?}");
    }
}

#[test]
fn addresses_of_52_bits_stand_where_the_format_says() {
    let none = Attributes::default();
    let page = descriptor::user_leaf(K64_LPA, Level::L3, 0x000a_0000_0001_0000, none).unwrap();
    assert_eq!(page, 0x1_0000 | 0xa << 12 | 0xc03);
    let page = descriptor::user_leaf(K4_LPA2, Level::L3, 0x000e_0000_0000_1000, none).unwrap();
    assert_eq!(page, 0x0002_0000_0000_1000 | 0b11 << 8 | 0xc03);
    let table = descriptor::table(K4_LPA2, 0x000c_0000_0000_1000, 0).unwrap();
    assert_eq!(table, 0x1303);
}

#[test]
fn values_that_the_descriptor_cannot_hold_are_refused() {
    let none = Attributes::default();
    assert!(descriptor::user_leaf(K4, Level::L2, 0x1000, none).is_err());
    assert!(descriptor::user_leaf(K16, Level::L1, 0, none).is_err());
    assert!(descriptor::user_leaf(K4, Level::L3, 1 << 48, none).is_err());
    assert!(descriptor::user_leaf(K4_LPA2, Level::L3, 1 << 52, none).is_err());
    assert!(descriptor::table(K64, 0x1000, 0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn outputs_survive_the_descriptor(
        which in 0_usize..6, level in 0_usize..4, address in any::<u64>(),
        lower in any::<u64>(), upper in any::<u64>(),
    ) {
        let geometry = ALL_GEOMETRIES[which];
        if let Some(shift) = geometry.leaf_shift(LEVELS[level]) {
            let bits = if geometry.addresses == AddressSize::Bits52 { 52 } else { 48 };
            let output = address & ((1 << bits) - 1) & !((1 << shift) - 1);
            let leaf = descriptor::user_leaf(
                geometry, LEVELS[level], output, Attributes { lower, upper },
            ).unwrap();
            prop_assert_eq!(descriptor::output_of(geometry, leaf), output);
            prop_assert!(!descriptor::leaks_between_tags(LEVELS[level], leaf));
        }
    }

    #[test]
    fn a_root_below_48_bits_reads_back_in_both_layouts(table in any::<u64>(), tag in any::<u16>()) {
        let table = table & 0xffff_ffff_ffc0;
        prop_assert_eq!(ttbr(table, tag), u64::from(tag) << 48 | table);
    }
}
