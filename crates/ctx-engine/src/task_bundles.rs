//! Export and import of the open task, to hand it to another agent or machine.

use std::collections::BTreeSet;

use ctx_core::bundle::{self, BadBundle, Manifest, TaskBundle};
use ctx_core::decide::{self, Needs};
use ctx_core::id::ObjectId;
use ctx_core::object::{Kind, Named, Object};
use ctx_core::refusal::Refusal;
use ctx_core::task::Task;
use ctx_store::PAGE_MAX;

use crate::engine::Error;
use crate::recorder::Recorder;

impl Recorder {
    /// Exports the open task with every object it references, as a bundle that verifies itself.
    ///
    /// Fails if no task is open, or an object is missing or damaged.
    pub async fn export(&mut self) -> Result<(TaskBundle, Vec<u8>), Error> {
        self.flush().await?;
        let task = self.task().await?.ok_or(Refusal::NoTask)?;
        let (mut objects, mut blobs) = (Vec::new(), BTreeSet::new());
        loop {
            // Steps that are written meanwhile come after the exported head.
            let after = objects.len() as u64;
            let limit = PAGE_MAX.min((task.steps - after) as usize);
            let page = if limit == 0 {
                Vec::new()
            } else {
                self.engine().store().steps(task.id, after, limit).await?
            };
            if page.is_empty() {
                break;
            }
            for stored in page {
                blobs.extend(stored.step.blobs());
                objects.push(stored.object);
            }
        }
        for blob in blobs {
            objects.push(self.needed(blob.0).await?);
        }
        let manifest = TaskBundle::of(&task);
        let bytes = bundle::write(&Manifest::Task(Box::new(manifest.clone())), &objects);
        if bytes.len() > bundle::BUNDLE_MAX_BYTES {
            return Err(
                BadBundle::TooLarge { bytes: bytes.len(), max: bundle::BUNDLE_MAX_BYTES }.into()
            );
        }
        Ok((manifest, bytes))
    }

    async fn needed(&self, id: ObjectId) -> Result<Object, Error> {
        let found = self.engine().store().object(id).await?;
        Ok(found.ok_or(ctx_store::Error::NotFound { what: "blob", name: id.to_string() })?)
    }

    /// Continues the task of a bundle. Everything is verified before anything changes.
    ///
    /// Fails if the bundle is damaged or incomplete, or another task is open here.
    pub async fn import(&mut self, bytes: &[u8]) -> Result<Task, Error> {
        if bytes.len() > bundle::BUNDLE_MAX_BYTES {
            return Err(
                BadBundle::TooLarge { bytes: bytes.len(), max: bundle::BUNDLE_MAX_BYTES }.into()
            );
        }
        if self.has_pending() {
            self.flush().await?;
        }
        let (manifest, objects) = bundle::read(bytes)?;
        let found = manifest.kind_name();
        let Manifest::Task(manifest) = manifest else {
            return Err(BadBundle::OtherKind { found, wanted: "task" }.into());
        };
        let import = bundle::task_import(*manifest, &objects)?;
        self.require_blobs(&import, &objects).await?;
        let needs =
            Needs { import: Some((import.bundle.task, import.bundle.staging_head)), ..Needs::WORK };
        let blobs = objects
            .into_iter()
            .filter(|object| object.kind == Kind::Blob)
            .map(Named::from)
            .collect();
        let rule =
            move |view: &decide::SessionView, _: &decide::Invocation| decide::import(view, &import);
        Ok(self.engine().decide(self.target().clone(), needs, blobs, rule).await?.reply)
    }

    /// Checks that every blob of the steps is in the bundle or in the store.
    async fn require_blobs(
        &self,
        import: &decide::Import,
        objects: &[Object],
    ) -> Result<(), Error> {
        let brought: BTreeSet<ObjectId> =
            objects.iter().filter(|object| object.kind == Kind::Blob).map(Object::id).collect();
        let wanted: BTreeSet<ObjectId> =
            import.steps.iter().flat_map(|step| step.step.blobs()).map(|blob| blob.0).collect();
        for missing in wanted.difference(&brought) {
            self.needed(*missing).await?;
        }
        Ok(())
    }
}
