//! A session bundle without secrets. Objects are named by their hashes, so the copy has other ids:
//! it is another history, which verifies itself like every bundle.

use std::collections::HashMap;

use serde_json::Value;

use crate::canonical;
use crate::id::{BlobId, ObjectId, TurnId};
use crate::object::{Kind, Named, Object};
use crate::redaction::{ChangedBlobs, Redactor};
use crate::turn::{self, About, Header, Ready};

use super::{BadBundle, Manifest, damaged, read, write};

/// Replaces the secrets of a bundle and counts them in `redactor`. A bundle without secrets is
/// returned as it is.
///
/// # Errors
/// If the bundle is damaged.
pub fn redact(bytes: Vec<u8>, redactor: &mut Redactor) -> Result<Vec<u8>, BadBundle> {
    let (manifest, objects) = read(&bytes)?;
    let before = redactor.total();
    let (blobs, others): (Vec<Object>, Vec<Object>) =
        objects.into_iter().partition(|object| object.kind == Kind::Blob);
    let (blobs, changed) = redactor.blobs(blobs.into_iter().map(Named::from).collect());
    let mut ids: HashMap<String, String> =
        changed.iter().map(|(old, (new, _))| (old.to_string(), new.to_string())).collect();
    let bodies: HashMap<ObjectId, &Object> =
        others.iter().filter(|o| o.kind == Kind::TurnBody).map(|body| (body.id(), body)).collect();
    let mut out = Vec::with_capacity(others.len() + blobs.len());
    let mut parent = None;
    // Turns and steps are in order, so the new id of a parent is known before its child.
    for object in &others {
        match object.kind {
            Kind::Turn => {
                let new = turn_without_secrets(object, &bodies, parent, &changed, redactor)?;
                parent = new.first().map(|header| TurnId(header.id()));
                note(&mut ids, object, new.first());
                out.extend(new);
            }
            Kind::Step | Kind::Commit => {
                let new = json_without_secrets(object, &ids, &changed, redactor)?;
                note(&mut ids, object, Some(&new));
                out.push(new);
            }
            // Each follows its turn.
            Kind::TurnBody | Kind::Blob => {}
        }
    }
    out.extend(blobs.into_iter().map(Named::into_object));
    let manifest = manifest_without_secrets(&manifest, &ids, &changed, redactor)?;
    if redactor.total() == before {
        return Ok(bytes);
    }
    Ok(write(&manifest, &out))
}

fn note(ids: &mut HashMap<String, String>, old: &Object, new: Option<&Object>) {
    if let Some(new) = new {
        ids.insert(old.id().to_string(), new.id().to_string());
    }
}

/// The header and the body of a turn, linked to the new parent. A purged body stays absent.
fn turn_without_secrets(
    object: &Object,
    bodies: &HashMap<ObjectId, &Object>,
    parent: Option<TurnId>,
    blobs: &ChangedBlobs,
    redactor: &mut Redactor,
) -> Result<Vec<Object>, BadBundle> {
    let bad = |id, fault| BadBundle::BadObject { id, fault };
    let header: Header = object.decode().map_err(|fault| bad(object.id(), fault))?;
    let Some(body) = bodies.get(&header.body) else {
        return Ok(vec![Object::encode(Kind::Turn, &Header { parent, ..header })]);
    };
    let mut messages = turn::messages(&header, body).map_err(|fault| bad(header.body, fault))?;
    for message in &mut messages {
        redactor.message(message, blobs);
    }
    let about = About {
        kind: header.kind,
        status: header.status,
        provider_id: header.provider_id,
        model: header.model,
        usage: header.usage,
        started_at: header.started_at,
        ended_at: header.ended_at,
    };
    let (ready, body) = Ready::new(about, messages);
    Ok(vec![ready.with_parent(parent).object, body.into_object()])
}

/// A step or a commit with its texts redacted and its ids replaced.
fn json_without_secrets(
    object: &Object,
    ids: &HashMap<String, String>,
    blobs: &ChangedBlobs,
    redactor: &mut Redactor,
) -> Result<Object, BadBundle> {
    let decoded = serde_json::from_slice(&object.bytes);
    let mut value: Value = decoded.map_err(|error| damaged(&error.to_string()))?;
    redactor.value(&mut value);
    replace_ids(&mut value, ids, blobs);
    Ok(Object { kind: object.kind, version: object.version, bytes: canonical::to_bytes(&value) })
}

fn manifest_without_secrets(
    manifest: &Manifest,
    ids: &HashMap<String, String>,
    blobs: &ChangedBlobs,
    redactor: &mut Redactor,
) -> Result<Manifest, BadBundle> {
    let bad = |error: serde_json::Error| damaged(&error.to_string());
    let mut value = serde_json::to_value(manifest).map_err(bad)?;
    // Texts of the manifest repeat those of the objects, so they are not counted again.
    let mut texts = Redactor::default();
    if texts.value(&mut value) && redactor.total() == 0 {
        *redactor = texts;
    }
    replace_ids(&mut value, ids, blobs);
    serde_json::from_value(value).map_err(bad)
}

/// Replaces the ids of changed objects, and the sizes of changed blobs.
fn replace_ids(value: &mut Value, ids: &HashMap<String, String>, blobs: &ChangedBlobs) {
    match value {
        Value::String(text) => {
            if let Some(new) = ids.get(text.as_str()) {
                text.clone_from(new);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|one| replace_ids(one, ids, blobs)),
        Value::Object(fields) => {
            let blob = fields.get("blob").and_then(Value::as_str);
            let blob = blob.and_then(|id| id.parse().ok()).map(BlobId);
            if let Some((_, size)) = blob.and_then(|blob| blobs.get(&blob))
                && let Some(bytes) = fields.get_mut("bytes")
            {
                *bytes = (*size).into();
            }
            fields.values_mut().for_each(|one| replace_ids(one, ids, blobs));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::tests::sample;
    use super::super::{Manifest, session_import};
    use super::*;
    use crate::id::MessageId;
    use crate::message::{Message, Part, Role};
    use crate::time::Timestamp;
    use ulid::Ulid;

    /// The sample bundle with one more turn.
    fn bundle(text: &str) -> Vec<u8> {
        let (mut manifest, mut objects) = sample();
        let message = Message {
            id: MessageId(Ulid(77)),
            role: Role::User,
            source: None,
            content: vec![Part::Text { text: text.to_owned() }],
            created_at: Timestamp(5),
        };
        let (ready, body) = Ready::new(About::at(Timestamp(5)), vec![message]);
        let record = ready.with_parent(manifest.head);
        manifest.head = Some(record.id);
        manifest.turn_count += 1;
        objects.extend([record.object, body.into_object()]);
        write(&Manifest::Session(Box::new(manifest)), &objects)
    }

    #[test]
    fn a_redacted_bundle_verifies_and_has_another_head() {
        let mut redactor = Redactor::default();
        let original = bundle("it is DB_PASSWORD=hunter2");
        let clean = redact(original.clone(), &mut redactor).expect("valid");
        assert_eq!(redactor.total(), 1);
        assert!(!clean.windows(7).any(|window| window == b"hunter2"));
        let heads = [&original, &clean].map(|bytes| {
            let (Manifest::Session(manifest), objects) = read(bytes).expect("readable") else {
                panic!("a session")
            };
            let import = session_import(*manifest, &objects).expect("verified");
            assert!(import.missing.is_empty());
            import.bundle.head
        });
        assert_ne!(heads[0], heads[1]);
    }

    #[test]
    fn a_bundle_without_secrets_stays_as_it_is() {
        let mut redactor = Redactor::default();
        let original = bundle("nothing to hide");
        assert_eq!(redact(original.clone(), &mut redactor).expect("valid"), original);
        assert_eq!(redactor.total(), 0);
    }
}
