//! Golden files: the stored bytes and ids of one object of each kind. Every later version must read
//! them.
//!
//! `golden/NAME.json` has exactly the stored bytes of an object, without a newline at the end (also
//! `blob.bin` and `task.bundle`). `golden/ids.json` has the kind, version and id of each. A golden
//! file is never changed: a new encoding is a new version of its kind, with new golden files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ctx_core::bundle::{self, Manifest};
use ctx_core::commit::Commit;
use ctx_core::id::ObjectId;
use ctx_core::object::{Kind, Object};
use ctx_core::step::Step;
use ctx_core::turn::{self, About, Header, Ready};
use serde::Serialize;
use serde::de::DeserializeOwned;

mod golden_objects;

use golden_objects as made;

/// An entry of `ids.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
struct Pinned {
    kind: String,
    version: u16,
    id: ObjectId,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn file_name(name: &str, kind: Kind) -> String {
    if kind == Kind::Blob { format!("{name}.bin") } else { format!("{name}.json") }
}

fn pinned() -> BTreeMap<String, Pinned> {
    let text = fs::read(directory().join("ids.json")).unwrap_or_else(|_| b"{}".to_vec());
    serde_json::from_slice(&text).expect("ids.json is a map from names to ids")
}

/// Compares bytes with a golden file. Different bytes are written to the target directory for
/// inspection.
fn compare(file: &str, found: &[u8], wrong: &mut Vec<String>) {
    let golden = directory().join(file);
    if fs::read(&golden).is_ok_and(|expected| expected == found) {
        return;
    }
    let actual = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    fs::write(&actual, found).expect("the build's own directory can be written");
    let (old, new) = (golden.display(), actual.display());
    let how = if file.ends_with(".json") {
        format!("diff <(jq . {old}) <(jq . {new})")
    } else {
        format!("diff -a {old} {new}")
    };
    wrong.push(format!("{file} differs. Look at it with\n  {how}"));
}

const WHY: &str = "\nStores in the world hold the old bytes under the old ids. If the encoding \
    was changed on purpose, give \
    the kind a new version and add goldens for it; these stay, and stay readable.";

#[test]
fn every_object_is_encoded_as_in_its_golden_file() {
    let mut wrong = Vec::new();
    // Entries of older versions, which this code no longer writes, stay.
    let mut ids = pinned();
    for (name, object) in made::all() {
        compare(&file_name(name, object.kind), &object.bytes, &mut wrong);
        ids.insert(
            name.to_owned(),
            Pinned { kind: object.kind.to_string(), version: object.version, id: object.id() },
        );
    }
    compare("ids.json", &serde_json::to_vec_pretty(&ids).expect("json"), &mut wrong);
    compare("task.bundle", &made::bundle(), &mut wrong);
    assert!(wrong.is_empty(), "{}{WHY}", wrong.join("\n"));
}

/// The id by its definition, computed without the code under test.
fn id_by_hand(pin: &Pinned, bytes: &[u8]) -> ObjectId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{} {} {}\0", pin.kind, pin.version, bytes.len()).as_bytes());
    hasher.update(bytes);
    ObjectId::from_bytes(*hasher.finalize().as_bytes())
}

fn reads_as<T: DeserializeOwned + Serialize>(object: &Object) {
    let value: T = object.decode().expect("an old encoding stays readable");
    if object.version == object.kind.newest_version() {
        assert_eq!(
            Object::encode(object.kind, &value).bytes,
            object.bytes,
            "what was read is all that was written"
        );
    }
}

/// The body decodes with its header to exactly the messages that were written.
fn reads_as_words(headers: &[Header], body: &Object) {
    let header = headers
        .iter()
        .find(|header| header.body == body.id())
        .expect("a golden header for every golden body");
    let messages = turn::messages(header, body).expect("an old encoding stays readable");
    if body.version == body.kind.newest_version() {
        let about = About {
            kind: header.kind,
            status: header.status,
            provider_id: header.provider_id.clone(),
            model: header.model.clone(),
            usage: header.usage.clone(),
            started_at: header.started_at,
            ended_at: header.ended_at,
        };
        assert_eq!(
            Ready::new(about, messages).1.object(),
            body,
            "what was read is all that was written"
        );
    }
}

fn golden(name: &str, pin: &Pinned) -> Object {
    let kind = Kind::from_name(&pin.kind).expect("a kind once written stays known");
    let bytes = fs::read(directory().join(file_name(name, kind)))
        .expect("every id of ids.json has its bytes");
    Object { kind, version: pin.version, bytes }
}

#[test]
fn every_golden_file_still_decodes_and_has_its_id() {
    let pinned = pinned();
    let turns = pinned
        .iter()
        .map(|(name, pin)| golden(name, pin))
        .filter(|object| object.kind == Kind::Turn);
    let headers: Vec<Header> = turns.map(|turn| turn.decode().expect("a header")).collect();
    for (name, pin) in &pinned {
        let object = golden(name, pin);
        assert_eq!(object.check(pin.id), Ok(()), "{name}");
        assert_eq!(id_by_hand(pin, &object.bytes), pin.id, "{name}");
        match object.kind {
            Kind::Turn => reads_as::<Header>(&object),
            Kind::TurnBody => reads_as_words(&headers, &object),
            Kind::Step => reads_as::<Step>(&object),
            Kind::Commit => reads_as::<Commit>(&object),
            Kind::Blob => {}
        }
    }
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| pinned.values().any(|pin| pin.kind == kind.name()))
        .collect();
    assert_eq!(kinds, Kind::ALL, "a golden for every kind of object");
}

#[test]
fn every_golden_file_decodes_to_its_object() {
    for (name, object) in made::all() {
        let golden = fs::read(directory().join(file_name(name, object.kind)))
            .expect("a golden for every object");
        let stored = Object { bytes: golden, ..object };
        match name {
            "turn" => assert_eq!(stored.decode::<Header>(), Ok(made::header())),
            "turn-body" => {
                assert_eq!(turn::messages(&made::header(), &stored), Ok(made::messages()));
            }
            "turn-picture" => assert_eq!(stored.decode::<Header>(), Ok(made::small_header())),
            "turn-body-picture" => {
                assert_eq!(turn::messages(&made::small_header(), &stored), Ok(made::picture()));
            }
            "blob" => assert_eq!(stored.bytes, made::BLOB),
            _ => match stored.kind {
                Kind::Step => {
                    assert!(made::steps().contains(&(name, stored.decode().expect("a step"))));
                }
                Kind::Commit => {
                    assert!(made::commits().contains(&(name, stored.decode().expect("a commit"))));
                }
                other => panic!("{name} is a {other} that this test does not know"),
            },
        }
    }
}

#[test]
fn the_golden_bundle_still_decodes_and_imports() {
    let bytes = fs::read(directory().join("task.bundle")).expect("there is a golden bundle");
    let (manifest, objects) = bundle::read(&bytes).expect("an old bundle stays readable");
    let Manifest::Task(task) = manifest.clone() else { panic!("a task") };
    assert_eq!((&*task, objects.len()), (&made::task_bundle(), 3));
    assert_eq!(bundle::write(&manifest, &objects), bytes);
    let import = bundle::task_import(*task, &objects).expect("its steps are one chain");
    assert_eq!(import.steps.len(), 2);
}

#[test]
fn every_file_of_the_directory_is_a_known_golden_file() {
    let pinned = pinned();
    let mut expected: Vec<String> = pinned
        .iter()
        .map(|(name, pin)| {
            file_name(name, Kind::from_name(&pin.kind).expect("a kind once written stays known"))
        })
        .chain(["ids.json", "task.bundle"].map(str::to_owned))
        .collect();
    expected.sort_unstable();
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("readable").file_name().into_string().expect("plain names")
    };
    let mut found: Vec<String> =
        fs::read_dir(directory()).expect("the goldens").map(name).collect();
    found.retain(|name| name != ".gitattributes");
    found.sort_unstable();
    assert_eq!(found, expected);
}
