//! Property tests with clustered hashes, for which every estimated position is wrong.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn hash() -> impl Strategy<Value = u64> {
    // Many equal values, many close together, some anywhere.
    prop_oneof![
        0..40_u64,
        (0..40_u64).prop_map(|n| u64::MAX - n),
        (0..4_u64).prop_map(|n| 7 << 60 | n),
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_run_finds_exactly_the_rows_of_a_linear_scan(
        hashes in vec(hash(), 0..400),
        low in hash(),
        high in hash(),
        length in 1..=8_usize,
    ) {
        let whole = |n: u64| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&n.to_be_bytes());
            hash
        };
        let entries = encode_entries(10, (10..).zip(hashes.iter().map(|n| whole(*n))));
        let (low, high) = (low.min(high).to_be_bytes(), low.max(high).to_be_bytes());
        let (low, high) = (&low[..length], &high[..length]);
        let inside = |n: &u64| {
            let bytes = n.to_be_bytes();
            &bytes[..length] >= low && &bytes[..length] <= high
        };
        let expected: Vec<i64> =
            (10..).zip(&hashes).filter(|(_, n)| inside(n)).map(|(row, _)| row).collect();
        let mut found: Vec<i64> = rows_between(10, &entries, low, high).collect();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}
