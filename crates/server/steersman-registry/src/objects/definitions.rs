//! Machine: the CRD controllers: accept names, serve and stop serving custom resources, and delete them with their CRD.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_apimachinery::{conditions, go};
use steersman_builtins::crd;
use steersman_schema::resource::{Resource, StorageKey};
use steersman_store::Stored;

use crate::requests::claimed_names::names_in;
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, StoredWrite, WriteOptions};
use crate::state::pending_work::PropagationPolicy;
use crate::state::registry::Registry;
use crate::values::text;

impl Registry {
    /// Creates or replaces a CustomResourceDefinition (CRD). Its custom resources are served when this returns.
    ///
    /// # Errors
    /// Fails with the `Status` of a refused create or update.
    pub fn install_crd(&mut self, mut crd: Value, now: Timestamp) -> Result<StoredWrite, Status> {
        self.now = now;
        let resource = self.definition_resource();
        let resource = resource.ok_or_else(Status::no_such_path)?;
        let name = metadata::text(&crd, "name").to_owned();
        let options = WriteOptions::default();
        let Some(old) = self.store.get(&resource.storage, "", &name) else {
            let all = ObjectTarget::collection(&resource, None);
            return self.create(all, crd, &options, now);
        };
        let version = Value::String(old.revision.to_string());
        metadata::of(&mut crd).insert("resourceVersion".to_owned(), version);
        let target = ObjectTarget::object(&resource, None, &name);
        self.update(target, crd, &options, now)
    }

    /// Accepts or refuses the names of a new CRD, and serves its resources. This is a second write after the create, so
    /// the response of the create does not show the accepted names and conditions.
    pub(crate) fn establish(&mut self, resource: &Resource, created: &Stored) {
        let mut crd = created.lean().clone();
        self.judge_names(&mut crd);
        let crd = self.own_status(resource, created, crd);
        let stored = self.put(&definitions(), "", &created.name, crd);
        self.serve_definition(&stored, stored.revision, false);
    }

    /// Accepts those names of a CRD that no other CRD of its group has, even if other names of the CRD are taken. Sets
    /// the conditions of the CRD accordingly, and the condition about API approval.
    pub(crate) fn judge_names(&self, crd: &mut Value) {
        let now = metadata::time(self.now);
        let group = text(&crd["spec"]["group"]);
        let (resources, kinds) = self.claimed_names.of_others(group, &storage_of(crd));
        let asked = crd["spec"]["names"].clone();
        let mut accepted = crd["status"]["acceptedNames"].clone();
        let had = accepted.clone();
        let given = |field: &str| asked.get(field).filter(|given| !given.is_null()).cloned();
        let names = metadata::members(&mut accepted);
        let mut conflict = None;
        for (field, reason, taken) in [
            ("plural", "PluralConflict", &resources),
            ("singular", "SingularConflict", &resources),
            ("shortNames", "ShortNamesConflict", &resources),
            ("kind", "KindConflict", &kinds),
            ("listKind", "ListKindConflict", &kinds),
        ] {
            let used: Vec<String> = names_in(&asked[field])
                .filter(|name| !names_in(&had[field]).any(|own| own == *name))
                .filter(|name| taken.contains(name))
                .map(|name| format!("{} is already in use", go::quote(name)))
                .collect();
            match used.as_slice() {
                [] => metadata::assign(names, field, given(field)),
                [one] => conflict = Some((reason, one.clone())),
                several => conflict = Some((reason, format!("[{}]", several.join(", ")))),
            }
        }
        metadata::assign(names, "categories", given("categories"));
        match conflict {
            None => crd::accept(crd, accepted, &now),
            Some((reason, message)) => crd::refuse_names(crd, accepted, (reason, &message), &now),
        }
        crd::set_approval(crd, &now);
    }

    /// Returns whether the names and conditions of a CRD are up to date, so that `judge_names` would change nothing.
    pub(crate) fn keeps_names(&self, crd: &Value) -> bool {
        // A copy without the versions, to save time: they are most of a CRD, and `judge_names` does not read them.
        let head = json!({
            "metadata": crd["metadata"],
            "spec": {"group": crd["spec"]["group"], "names": crd["spec"]["names"]},
            "status": crd["status"],
        });
        let mut judged = head.clone();
        self.judge_names(&mut judged);
        judged == head
    }

    /// Serves the custom resources of a CRD, if it has the condition `Established`; otherwise stops serving them.
    /// `revised`: objects may be stored that do not fit the current schema, so every read applies this schema.
    pub(crate) fn serve_definition(&mut self, definition: &Stored, edition: u64, revised: bool) {
        let crd = definition.lean();
        let storage = storage_of(crd);
        let mut resources = if crd::is_established(crd) {
            crd::resources(crd, definition.bytes(), edition)
        } else {
            Vec::new()
        };
        for resource in resources.iter_mut().filter(|_| revised) {
            resource.stored_schemas.read_always();
        }
        self.claimed_names.record(&storage, crd);
        let compacted = self.store.compacted();
        self.catalogue
            .install(&storage, edition, resources, compacted);
        self.pending.versions = true;
        self.touch(&storage);
    }

    /// Serves the custom resources of a CRD after an update of the CRD. If its spec or accepted names changed, a new
    /// edition begins, and the open watches of all its versions end (SRV-WATCH-4); otherwise watches go on.
    ///
    /// Kubernetes source: `updateCustomResourceDefinition` of apiextensions-apiserver.
    pub(crate) fn serve_again(&mut self, before: &Value, written: &Stored) {
        let crd = written.lean();
        let names = |crd: &Value| crd["status"]["acceptedNames"].clone();
        let is_same = before["spec"] == crd["spec"] && names(before) == names(crd);
        let served = self.catalogue.of_storage(&storage_of(crd));
        let edition = served.filter(|_| is_same).map(|served| served.edition);
        self.serve_definition(written, edition.unwrap_or(written.revision), true);
    }

    /// Marks a deleted CRD as terminating. The CRD is removed when the last of its custom resources is deleted.
    pub(crate) fn terminate_definition(crd: &mut Value, now: Timestamp) {
        let time = metadata::time(now);
        let fields = metadata::of(crd);
        fields
            .entry("deletionTimestamp")
            .or_insert_with(|| json!(time));
        metadata::add_item(fields, "finalizers", json!(crd::CLEANUP_FINALIZER));
        let why = (
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        );
        conditions::set(crd, "Terminating", true, why, &time);
    }

    /// Deletes the custom resources of all deleted CRDs, and removes those CRDs that have no custom resources left.
    pub(crate) fn clear_definitions(&mut self) {
        let Some(resource) = self.definition_resource() else {
            return;
        };
        for name in std::mem::take(&mut self.pending.definitions) {
            let Some(marked) = self.store.get(&resource.storage, "", &name).cloned() else {
                continue;
            };
            let storage = storage_of(marked.lean());
            if !crd::is_in_cleanup(marked.lean()) {
                self.begin_cleanup(&resource, &marked);
            }
            self.clear(&storage, None, None);
            self.finish_definition(&storage);
        }
    }

    /// Sets reason and message of the condition `Terminating` of a CRD: its custom resources are being deleted. This is
    /// a second write, which the response of the delete does not show.
    fn begin_cleanup(&mut self, resource: &Resource, marked: &Stored) {
        let why = (crd::CLEANUP, "CustomResource deletion is in progress");
        let mut crd = marked.lean().clone();
        let time = metadata::time(self.now);
        conditions::set(&mut crd, "Terminating", true, why, &time);
        let crd = self.own_status(resource, marked, crd);
        let put = self.put(&resource.storage, "", &marked.name, crd);
        self.serve_again(marked.lean(), &put);
    }

    /// Deletes all objects of a kind, or those in one namespace. An object with a finalizer stays, marked as deleted.
    pub(crate) fn clear(
        &mut self,
        storage: &StorageKey,
        namespace: Option<&str>,
        policy: Option<PropagationPolicy>,
    ) {
        let all: Vec<_> = self.store.list(storage, namespace).cloned().collect();
        let served = self.catalogue.of_storage(storage).cloned();
        let Some(resource) = served.or_else(|| self.unserved(storage)) else {
            return;
        };
        for stored in all {
            self.begin_delete(&resource, &stored, Some(0), policy);
        }
    }

    fn definition_resource(&self) -> Option<Arc<Resource>> {
        self.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    }

    /// Returns the CRD of the custom resources in a storage, which has the name of the storage: `<plural>.<group>`.
    fn definition_of(&self, storage: &StorageKey) -> Option<&Arc<Stored>> {
        self.store.get(&definitions(), "", storage.as_str())
    }

    /// Builds the resource of a CRD that serves no version, to delete the custom resources that it still has.
    fn unserved(&self, storage: &StorageKey) -> Option<Arc<Resource>> {
        let found = self.definition_of(storage)?.borrowed();
        crd::stored_resource(found.lean(), found.bytes()).map(Arc::new)
    }

    /// Removes a terminating CRD, if it has no custom resources left, and no finalizer except `CLEANUP_FINALIZER`.
    pub(crate) fn finish_definition(&mut self, storage: &StorageKey) {
        if self.store.list(storage, None).next().is_some() {
            return;
        }
        let found = self.definition_of(storage).cloned();
        let Some(found) = found.filter(|one| one.is_terminating()) else {
            return;
        };
        let others = found.lean()["metadata"]["finalizers"].as_array();
        if others.is_some_and(|list| list.iter().any(|one| one != crd::CLEANUP_FINALIZER)) {
            return;
        }
        self.remove(&definitions(), &found);
        self.claimed_names.remove(storage);
        let end = self.store.revision();
        let compacted = self.store.compacted();
        self.catalogue.install(storage, end, Vec::new(), compacted);
        self.pending.versions = true;
        self.touch(storage);
        self.judge_waiting(&found.lean()["spec"]["group"]);
    }

    /// Checks the names of the CRDs of a group with a refused name again: another CRD may have freed this name.
    pub(crate) fn judge_waiting(&mut self, group: &Value) {
        for storage in self.claimed_names.refused(text(group)) {
            let Some(stored) = self.definition_of(&storage).cloned() else {
                continue;
            };
            let mut crd = stored.draft();
            self.judge_names(&mut crd.value);
            if !stored.holds(&crd) {
                let put = self.put(&definitions(), "", &stored.name, crd);
                self.serve_again(stored.lean(), &put);
            }
        }
    }
}

fn definitions() -> StorageKey {
    StorageKey::new("apiextensions.k8s.io", "customresourcedefinitions")
}

pub(crate) fn storage_of(crd: &Value) -> StorageKey {
    let (spec, names) = (&crd["spec"], &crd["spec"]["names"]);
    StorageKey::new(text(&spec["group"]), text(&names["plural"]))
}
