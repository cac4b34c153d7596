//! Machine: refuses writes that exceed a ResourceQuota (upstream: the plugin ResourceQuota), and keeps the usage in its
//! status (upstream: the resource quota controller).
//!
//! As upstream, writes are checked against the limits in the quota's status, to which the quota controller copies them
//! from the spec. Without this controller, a quota limits nothing until a client writes its status.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::quantity::Quantity;
use steersman_apimachinery::status::Status;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use super::limits::{Amounts, amounts};
use super::usage::{add_masked, covers, in_scopes, is_ignored, may_change, unnamed, usage};
use crate::admission::attributes::{AdmittedWrite, WriteAdmission};
use crate::requests::metadata;
use crate::requests::options::Subresource;
use crate::state::pending_work::QuotaTally;
use crate::state::registry::Registry;

/// The amounts that writes have added to the usage of each resource, and the amounts that they have removed.
type QuotaDifference = BTreeMap<String, (Quantity, Quantity)>;

fn quotas() -> StorageKey {
    StorageKey::new("", "resourcequotas")
}

impl Registry {
    fn quotas_of(&self, namespace: &str) -> Vec<Arc<Stored>> {
        let all = self.store.list(&quotas(), Some(namespace));
        all.cloned().collect()
    }

    /// Refuses with 403 a write that exceeds a quota, an object without a request or limit that a quota requires, and
    /// any write while the status of a quota has no usage. Runs after all other checks of the write.
    pub(crate) fn admit_quota(&self, write: AdmittedWrite<'_>) -> Result<(), Status> {
        let (admission, object, old) = write;
        let resource = admission.target.resource;
        let storage = &resource.storage;
        if !self.presence.quotas || !resource.namespaced || !is_counted(admission, storage) {
            return Ok(());
        }
        let mut concerned = Vec::new();
        for quota in self.quotas_of(admission.target.scope()) {
            let Some(limited) = limited(quota.lean(), storage, object) else {
                continue;
            };
            let refuse = |why: String| Err(admission.refusal(object, &why));
            let name = &quota.name;
            if storage.as_str() == "pods."
                && let Some(missing) = unnamed(object, &limited)
            {
                return refuse(format!("failed quota: {name}: must specify {missing}"));
            }
            let used = amounts(&quota.lean()["status"]["used"]);
            if !limited.keys().all(|name| used.contains_key(name)) {
                let names: Vec<&str> = limited.keys().map(String::as_str).collect();
                let names = names.join(",");
                return refuse(format!(
                    "status unknown for quota: {name}, resources: {names}"
                ));
            }
            concerned.push((quota, used));
        }
        if concerned.is_empty() {
            return Ok(());
        }
        let all = usage(storage, object);
        let negative = all.iter().filter(|(_, amount)| amount.sign() < 0);
        let negative: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
        if !negative.is_empty() {
            let names = negative.join(",");
            let why = format!("quota usage is negative for resource(s): {names}");
            return Err(admission.refusal(object, &why));
        }
        for (quota, used) in concerned {
            let before = old.filter(|old| limited(quota.lean(), storage, old).is_some());
            let before = before.map(|old| usage(storage, old)).unwrap_or_default();
            let hard = amounts(&quota.lean()["status"]["hard"]);
            let mut lists: [Vec<String>; 3] = Default::default();
            for (name, amount) in &all {
                let asked = more(*amount, before.get(name));
                let Some(most) = hard.get(name).filter(|_| asked.sign() > 0) else {
                    continue;
                };
                let had = used.get(name).copied();
                let sum = had.map_or(asked, |had| had.plus(asked));
                if sum > *most {
                    lists[0].push(format!("{name}={asked}"));
                    lists[1].extend(had.map(|had| format!("{name}={had}")));
                    lists[2].push(format!("{name}={most}"));
                }
            }
            if !lists[0].is_empty() {
                let [asked, used, most] = lists.map(|parts| parts.join(","));
                let name = &quota.name;
                let why = format!(
                    "exceeded quota: {name}, requested: {asked}, used: {used}, limited: {most}"
                );
                return Err(admission.refusal(object, &why));
            }
        }
        Ok(())
    }

    /// Records a stored write or deletion that changes the usage of quotas. Refused writes and dry runs do not call
    /// this, so they are not counted (QUOTA-2).
    pub(crate) fn note_usage(
        &mut self,
        storage: &StorageKey,
        old: Option<&Arc<Stored>>,
        new: Option<&Arc<Stored>>,
    ) {
        if !self.presence.quotas || is_ignored(storage) {
            return;
        }
        let counts = match (old, new) {
            (Some(old), Some(new)) if *storage == quotas() => {
                old.lean()["spec"] != new.lean()["spec"]
            }
            (Some(_), Some(_)) => may_change(storage),
            _ => true,
        };
        let either = new.or(old);
        if counts && either.is_some_and(|one| !one.namespace.is_empty()) {
            self.pending.tallies.push(QuotaTally {
                storage: storage.clone(),
                old: old.cloned(),
                new: new.cloned(),
            });
        }
    }

    /// Adds the writes and deletions that `note_usage` recorded to the status of each quota, in one write per quota
    /// (QUOTA-1). If the quota itself was written, counts its usage anew.
    pub(crate) fn settle_quotas(&mut self) {
        let mut by_namespace: BTreeMap<Arc<str>, Vec<QuotaTally>> = BTreeMap::new();
        for tally in std::mem::take(&mut self.pending.tallies) {
            if let Some(one) = tally.new.as_ref().or(tally.old.as_ref()) {
                let namespace = Arc::clone(&one.namespace);
                by_namespace.entry(namespace).or_default().push(tally);
            }
        }
        for (namespace, tallies) in by_namespace {
            for quota in self.quotas_of(&namespace) {
                let itself = |tally: &QuotaTally| {
                    let new = tally.new.as_ref();
                    tally.storage == quotas() && new.is_some_and(|new| new.name == quota.name)
                };
                if self.options.count_quotas && tallies.iter().any(itself) {
                    self.recount(&quota);
                } else {
                    self.adjust(&quota, &tallies);
                }
            }
        }
    }

    /// Adds recorded writes and deletions to the usage in a quota's status. Without the quota controller, the usage
    /// never decreases: upstream, only this controller lowers the usage.
    fn adjust(&mut self, quota: &Arc<Stored>, tallies: &[QuotaTally]) {
        let hard = amounts(&quota.lean()["status"]["hard"]);
        if hard.is_empty() {
            return;
        }
        let counts_less = self.options.count_quotas;
        let zero = Quantity::of(0);
        let mut differences = QuotaDifference::new();
        for tally in tallies {
            let share = |one: Option<&Arc<Stored>>| {
                let one =
                    one.filter(|one| limited(quota.lean(), &tally.storage, one.lean()).is_some());
                let used = one.map(|one| usage(&tally.storage, one.lean()));
                used.unwrap_or_default()
            };
            let (before, after) = (share(tally.old.as_ref()), share(tally.new.as_ref()));
            for name in hard.keys() {
                let amount = |of: &Amounts| of.get(name).copied().unwrap_or(zero);
                let (gained, lost) = (amount(&after), amount(&before));
                let lost = if counts_less || lost <= gained {
                    lost
                } else {
                    gained
                };
                let sum = differences.entry(name.clone()).or_insert((zero, zero));
                *sum = (sum.0.plus(gained), sum.1.plus(lost));
            }
        }
        let mut used = amounts(&quota.lean()["status"]["used"]);
        for (name, (gained, lost)) in differences {
            if gained != lost {
                let had = used.get(&name).copied().unwrap_or(zero);
                let sum = had.plus(gained).plus(lost.negated());
                used.insert(name, if sum.sign() < 0 { zero } else { sum });
            }
        }
        self.write_usage(quota, None, &used);
    }

    fn recount(&mut self, quota: &Arc<Stored>) {
        let spec = &quota.lean()["spec"];
        let hard = amounts(&spec["hard"]);
        let zero = |name: &String| (name.clone(), Quantity::of(0));
        let mut used: Amounts = hard.keys().map(zero).collect();
        for storage in self.store.storages() {
            if is_ignored(storage) || !hard.keys().any(|name| covers(storage, name)) {
                continue;
            }
            for one in self.store.list(storage, Some(&quota.namespace)) {
                let object = one.look();
                if in_scopes(storage, spec, &object) {
                    add_masked(&mut used, usage(storage, &object), &hard);
                }
            }
        }
        self.write_usage(quota, Some(&spec["hard"]), &used);
    }

    fn write_usage(&mut self, quota: &Arc<Stored>, hard: Option<&Value>, used: &Amounts) {
        let mut after = quota.draft();
        let text = |(name, amount): (&String, &Quantity)| (name.clone(), amount.to_string());
        let status = metadata::members(&mut after.value["status"]);
        if let Some(hard) = hard {
            status.insert("hard".to_owned(), hard.clone());
        }
        status.insert("used".to_owned(), used.iter().map(text).collect());
        if quota.holds(&after) {
            return;
        }
        // As upstream, a new count (with `hard`) is a write of the quota controller, and a changed count is a write of
        // the admission plugin.
        let manager = match hard {
            Some(_) => "kube-controller-manager",
            None => "kube-apiserver",
        };
        let storage = quotas();
        if let Some(resource) = self.catalogue.of_storage(&storage).cloned() {
            let face = (&*resource, Subresource::Status);
            after = self.server_write(face, manager, (quota, after.value));
        }
        self.put(&storage, &quota.namespace, &quota.name, after);
    }
}

fn is_counted(admission: &WriteAdmission<'_>, storage: &StorageKey) -> bool {
    let created = admission.operation == "CREATE";
    match (admission.target.subresource, storage.as_str()) {
        _ if is_ignored(storage) => false,
        (Subresource::Main, "services." | "persistentvolumeclaims.") => true,
        (Subresource::Main, _) => created,
        (Subresource::Resize, "pods.") => true,
        _ => false,
    }
}

/// Returns those limits of a quota that count objects of this kind; `None` without such limits, or if the object is
/// not in the scopes of the quota.
fn limited(quota: &Value, storage: &StorageKey, object: &Value) -> Option<Amounts> {
    let mut limited = amounts(&quota["status"]["hard"]);
    limited.retain(|name, _| covers(storage, name));
    (!limited.is_empty() && in_scopes(storage, &quota["spec"], object)).then_some(limited)
}

/// Returns the increase from `before` to `now`; zero if the amount has not increased.
fn more(now: Quantity, before: Option<&Quantity>) -> Quantity {
    match before {
        None => now,
        Some(before) if now <= *before => Quantity::of(0),
        Some(before) => now.plus(before.negated()),
    }
}
