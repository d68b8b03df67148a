//! Damaged segments: lost objects are reported by id, the rest reads back, positions are checked.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use ctx_core::id::ObjectId;
use ctx_core::object::Object;
use ctx_store::Error;
use ctx_store::sqlite::{Indexing, Options};

use crate::StoreDir;
use crate::garbage_collection::{NO_GRACE, remove_rows, show_pictures};
use crate::harness::{StoreHandle, at, text_of, verify};
use crate::write_groups::{WrittenTurn, assert_reads_back, write_group};

/// Whether reading reports this object as damaged; any other result than its bytes fails the test.
async fn is_damaged(store: &StoreHandle, object: &Object, case: &str) -> bool {
    match store.object(object.id()).await {
        Err(Error::DamagedObject { id, .. }) if id == object.id() => true,
        Ok(Some(read)) if read == *object => false,
        other => panic!("{case}: {other:?}"),
    }
}

/// The same for the body of a turn.
async fn words_are_damaged(store: &StoreHandle, written: &WrittenTurn, case: &str) -> bool {
    match store.turns(written.turn, 1).await {
        Err(Error::DamagedObject { .. } | Error::Damaged(_)) => true,
        Ok(turns) if turns[0].body.as_ref() == Some(&written.body) => false,
        other => panic!("{case}: {other:?}"),
    }
}

async fn assert_found(store: &StoreHandle, id: ObjectId, case: &str) {
    let findings = verify(store).await.findings;
    assert!(
        findings.iter().any(|found| found.what.contains(&id.to_string())),
        "{case}: {id} is not in {findings:?}"
    );
}

#[tokio::test]
async fn a_lost_segment_file_is_reported_for_every_object_in_it() {
    let store_dir = StoreDir::fresh();
    let written = write_group(&store_dir.open(), "member", 1).await;
    show_pictures(&store_dir.open(), "alone", vec![Object::blob(text_of(9, 9000))], 1).await;
    fs::remove_file(store_dir.file("segments/1")).expect("lost");
    let store = store_dir.open();
    let findings = verify(&store).await.findings;
    for written in &written {
        assert!(
            findings.iter().any(|found| found.what.contains(&written.turn.to_string())),
            "{:?}",
            written.session
        );
        assert!(
            findings.iter().any(|found| found.what.contains(&written.pictures[0].id().to_string())),
            "{:?}",
            written.session
        );
        assert!(
            is_damaged(&store, &written.pictures[0], "lost").await
                && words_are_damaged(&store, written, "lost").await
        );
    }
    assert_eq!(findings.len(), 64 + 32, "and nothing else: {findings:?}");
    assert!(!is_damaged(&store, &Object::blob(text_of(9, 9000)), "alone").await);
    // New bodies do not reuse the number of the lost file, whose objects are erased later.
    let again = write_group(&store, "again", 2).await;
    assert_eq!(store_dir.segments(), ["2"]);
    (0..64).for_each(|n| remove_rows(&store_dir, &format!("member {n}")));
    assert_eq!(store.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 32);
    store.gc(at(100_000), NO_GRACE).await.expect("erased");
    assert_reads_back(&store, &again).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_truncated_segment_file_is_intact_up_to_its_end() {
    let store_dir = StoreDir::fresh();
    let written = write_group(&store_dir.open(), "member", 1).await;
    let whole = store_dir.segment(1);
    for left in [0, 1, whole.len() / 3, whole.len() / 2 + 1, whole.len() - 8192] {
        fs::write(store_dir.file("segments/1"), &whole[..left]).expect("cut off");
        let store = store_dir.open();
        let findings = verify(&store).await.findings;
        for written in &written {
            let picture = &written.pictures[0];
            let cut = store_dir.place("blobs", picture.id()).1.end > left;
            assert_eq!(is_damaged(&store, picture, "cut off").await, cut, "{left}");
            assert_eq!(
                findings.iter().any(|found| found.what.contains(&picture.id().to_string())),
                cut,
                "{left}: {findings:?}"
            );
            let cut = store_dir.place("turns", written.turn.0).1.end > left;
            assert_eq!(words_are_damaged(&store, written, "cut off").await, cut, "{left}");
        }
        assert!(!findings.is_empty());
    }
    fs::write(store_dir.file("segments/1"), whole).expect("put back");
    let store = store_dir.open();
    assert_reads_back(&store, &written).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_flipped_byte_in_a_segment_file_damages_one_object_only() {
    let store_dir = StoreDir::fresh();
    let written = write_group(&store_dir.open(), "member", 1).await;
    let file =
        OpenOptions::new().write(true).open(store_dir.file("segments/1")).expect("a segment");
    let whole = store_dir.segment(1);
    // The second is compressed, the last is not.
    for n in [1, 63] {
        let (one, places) = (
            &written[n],
            [
                store_dir.place("blobs", written[n].pictures[0].id()),
                store_dir.place("turns", written[n].turn.0),
            ],
        );
        for (n, (_, place)) in places.into_iter().enumerate() {
            for at in [place.start, place.start + place.len() / 2, place.end - 1] {
                file.write_all_at(&[whole[at] ^ 0x10], at as u64).expect("flipped");
                let store = store_dir.open();
                let case = format!("{n} at {at}");
                assert_found(&store, [one.pictures[0].id(), one.turn.0][n], &case).await;
                assert_eq!(verify(&store).await.findings.len(), 1, "{case}");
                assert_eq!(is_damaged(&store, &one.pictures[0], &case).await, n == 0, "{case}");
                assert_eq!(words_are_damaged(&store, one, &case).await, n == 1, "{case}");
                file.write_all_at(&whole[at..=at], at as u64).expect("put back");
            }
        }
    }
    assert_eq!(verify(&store_dir.open()).await.findings, []);
}

/// Column values that no stored body can have.
const NOWHERE: [(&str, &[i64]); 3] = [
    ("len", &[-1, 1 << 29, 1 << 30, (1 << 30) + 1, 1 << 40, i64::MAX]),
    ("off", &[-1, i64::MIN, 1 << 31, 1 << 39, 1 << 40, 1 << 53, i64::MAX]),
    ("seg", &[-1, 7, (1 << 20) - 1, 1 << 20, i64::MAX, i64::MIN]),
];

#[tokio::test]
async fn an_impossible_position_is_reported_as_damage() {
    let store_dir = StoreDir::fresh();
    let in_file = write_group(&store_dir.open(), "member", 1).await[0].pictures[0].clone();
    let in_database = Object::blob(text_of(9, 9000));
    // Not compressed, so that only the hash detects wrong bytes.
    let plain = Options { compress: false, indexing: Indexing::OnDemand };
    show_pictures(&store_dir.open_with(plain), "alone", vec![in_database.clone()], 1).await;
    for object in [&in_file, &in_database] {
        for (column, values) in NOWHERE {
            for value in values {
                let case = format!("{column} = {value}");
                let sql = store_dir.sql();
                let set = |value: i64| {
                    sql.execute(
                        &format!("UPDATE blobs SET {column} = ?1 WHERE hash = ?2"),
                        (value, object.id().as_bytes()),
                    )
                    .expect("set");
                };
                let right: i64 = sql
                    .query_row(
                        &format!("SELECT {column} FROM blobs WHERE hash = ?1"),
                        [object.id().as_bytes()],
                        |row| row.get(0),
                    )
                    .expect("a number");
                set(*value);
                let store = store_dir.open();
                let Err(Error::DamagedObject { id, why }) = store.object(object.id()).await else {
                    panic!("{case}: it is read")
                };
                assert_eq!(id, object.id(), "{case}");
                // The length is checked before memory is allocated for it, not by the hash.
                assert!(column != "len" || !why.contains("hash"), "{case}: {why}");
                assert_found(&store, object.id(), &case).await;
                set(right);
            }
        }
    }
    assert_eq!(verify(&store_dir.open()).await.findings, []);
}

#[tokio::test]
async fn a_truncated_chunk_is_reported_as_damage() {
    let store_dir = StoreDir::fresh();
    let pictures: Vec<Object> = (0..4).map(|n| Object::blob(text_of(n, 3000))).collect();
    for (n, picture) in pictures.iter().enumerate() {
        show_pictures(&store_dir.open(), &format!("session {n}"), vec![picture.clone()], 1).await;
    }
    let chunks = store_dir.number("SELECT COUNT(*) FROM bodies");
    assert!(chunks > 1, "{chunks}");
    store_dir.sql().execute_batch("UPDATE bodies SET data = substr(data, 1, 10)").expect("cut off");
    let store = store_dir.open();
    for picture in &pictures {
        assert!(is_damaged(&store, picture, "cut off").await);
        assert_found(&store, picture.id(), "cut off").await;
    }
    // A range inside the last chunk but behind its data.
    store_dir
        .sql()
        .execute("UPDATE blobs SET off = 4056 * ?1 - 100, len = 50", [chunks])
        .expect("set");
    for picture in &pictures {
        assert!(is_damaged(&store_dir.open(), picture, "past the end").await);
    }
    store.gc(at(1000), NO_GRACE).await.expect("gc works");
}
