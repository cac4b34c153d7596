//! Machine: runs a verb that may need webhooks: stops with the calls to send, and runs again with their responses.
//!
//! A verb never waits (SRV-1). If the response of a webhook is missing, the verb records the call and fails, so it
//! changes nothing. The caller sends the calls without the registry's lock and runs the verb again. A response belongs
//! to one exact call: if the object changes meanwhile, the next run needs another call (ADM-1). A create in an
//! unchanged registry continues where it stopped (`verbs/waiting.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_schema::resource::Resource;

use crate::requests::rng::Rng;
use crate::state::registry::{MODIFIED, Registry};
use crate::state::verb_state::VerbState;
use crate::values::items;
use crate::webhook::{CallResponse, PendingCalls, WebhookCall};

/// Maximum number of times that one webhook is called again in one request, because the object has changed since the
/// last call. Then the request gets 409: otherwise an object that changes all the time would never let it end.
const MOST_CHANGES: usize = 5;

/// The state that one verb keeps between its runs: the webhook responses so far, and the warnings. The caller creates
/// an `Attempt` with `default` for each request, and passes it to every run.
#[derive(Debug, Default)]
pub struct Attempt {
    verb_state: VerbState,
    /// The generator of uids and names as it was at the first run, so that every run generates the same uids and names.
    rng: Option<Rng>,
}

impl Attempt {
    /// Stores the response to the call with the key [`WebhookCall::key`], for the next run of the verb.
    pub fn learn(&mut self, key: String, answer: CallResponse) {
        self.verb_state.answers.insert(key, answer);
    }

    /// Returns and clears the warnings of the last run, which become `Warning` headers.
    pub fn warnings(&mut self) -> Vec<String> {
        self.verb_state.warnings.take().1
    }
}

impl Registry {
    /// Runs a verb with the webhook responses in `attempt`: to its end, or until it needs a response that is missing.
    ///
    /// # Errors
    /// [`PendingCalls`] if responses of webhooks are missing; the verb has changed nothing. Send the calls, pass each
    /// response to [`Attempt::learn`], and call `attempt` again.
    pub fn attempt<R>(
        &mut self,
        attempt: &mut Attempt,
        verb: impl FnOnce(&mut Self) -> R,
    ) -> Result<R, PendingCalls> {
        attempt.verb_state.warnings.take();
        if !self.has_webhooks() {
            self.verb_state.get_mut().warnings.take();
            let result = verb(self);
            attempt.verb_state.warnings = std::mem::take(&mut self.verb_state.get_mut().warnings);
            return Ok(result);
        }
        let fork = attempt.rng.get_or_insert_with(|| self.rng.fork());
        let own = std::mem::replace(&mut self.rng, fork.clone());
        let addresses = self.last_address;
        attempt.verb_state.attended = true;
        attempt.verb_state.conversions = 0;
        std::mem::swap(&mut attempt.verb_state, self.verb_state.get_mut());
        // Catches a panic, so that the state of the verb is always moved back from the registry to `attempt` (SRV-4).
        let result = catch_unwind(AssertUnwindSafe(|| verb(self)));
        std::mem::swap(&mut attempt.verb_state, self.verb_state.get_mut());
        self.rng = own;
        let result = result.unwrap_or_else(|panic| resume_unwind(panic));
        let calls = std::mem::take(&mut attempt.verb_state.pending);
        if calls.is_empty() {
            return Ok(result);
        }
        self.last_address = addresses;
        Err(PendingCalls { calls })
    }

    /// Returns whether the verb runs in [`Self::attempt`], so that its caller can call webhooks. Otherwise the server
    /// itself or a test has called the verb directly, and webhooks are ignored.
    pub(crate) fn is_attended(&self) -> bool {
        self.verb_state.borrow().attended
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.verb_state.borrow().pending.is_empty()
    }

    /// Returns the revision at which a list reads: the newest one, or in a run after a webhook call, the revision of
    /// the first run, so that the list needs the same call.
    pub(crate) fn newest(&self) -> u64 {
        let pinned = self.verb_state.borrow().pinned;
        pinned.unwrap_or_else(|| self.store.revision())
    }

    /// Keeps the revision of a list for the next run of the verb, if the list stops for a webhook call.
    pub(crate) fn pin(&self, revision: u64) {
        if self.is_waiting() {
            self.verb_state.borrow_mut().pinned = Some(revision);
        }
    }

    /// Returns the responses to webhook calls, in the order of the calls. If responses are missing, records their calls
    /// and fails; the verb must then change nothing and return the error. 409 if the object changed more than
    /// `MOST_CHANGES` times meanwhile.
    pub(crate) fn answers(
        &self,
        (resource, name): (&Resource, &str),
        calls: Vec<(String, WebhookCall)>,
    ) -> Result<Vec<CallResponse>, Status> {
        let mut verb_state = self.verb_state.borrow_mut();
        let known = |(_, call): &(String, WebhookCall)| verb_state.answers.get(&call.key).cloned();
        let all: Option<Vec<CallResponse>> = calls.iter().map(known).collect();
        if let Some(all) = all {
            return Ok(all);
        }
        for (place, call) in calls {
            if verb_state.answers.contains_key(&call.key) {
                continue;
            }
            let times = verb_state.asked.entry(place).or_default();
            *times += 1;
            if *times > 1 + MOST_CHANGES {
                verb_state.pending.clear();
                let why = MODIFIED;
                return Err(Status::conflict(resource.group_resource(), name, why));
            }
            verb_state.pending.push(call);
        }
        Err(Status::internal(
            "a webhook is still to be asked".to_owned(),
        ))
    }

    /// Returns the IP address and port of the first ready endpoint behind a port of a Service, to call a webhook there.
    ///
    /// # Errors
    /// Fails with the message of kube-apiserver's resolver if the Service, its port or a ready endpoint does not exist.
    pub fn service_address(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<(String, u16), String> {
        let of = |plural: &str| self.object(("", plural), namespace, name);
        let Some(service) = of("services") else {
            return Err(format!("service \"{name}\" not found"));
        };
        let ports = items(&service.value["spec"]["ports"]);
        let Some(asked) = ports.iter().find(|one| one["port"] == port) else {
            return Err(format!(
                "no service port {port} found for service \"{name}\""
            ));
        };
        let subsets = of("endpoints").map(|found| items(&found.value["subsets"]));
        for subset in subsets.unwrap_or_default() {
            let own = items(&subset["ports"]);
            let found = own.iter().find(|one| one["name"] == asked["name"]);
            let ip = subset["addresses"][0]["ip"].as_str();
            let target = found.and_then(|one| u16::try_from(one["port"].as_u64()?).ok());
            if let (Some(ip), Some(target)) = (ip, target) {
                return Ok((ip.to_owned(), target));
            }
        }
        let label = "kubernetes.io/service-name";
        let mut slices = self.objects(("discovery.k8s.io", "endpointslices"), Some(namespace));
        let found = slices.find_map(|slice| {
            let value = &slice.value;
            let own = value["metadata"]["labels"][label] == *name;
            let of_port = |one: &&Value| one["name"] == asked["name"] || ports.len() == 1;
            let port = items(&value["ports"]).iter().find(of_port)?["port"].as_u64()?;
            let endpoints = items(&value["endpoints"]);
            let ready = |one: &&Value| one["conditions"]["ready"] != false;
            let ip = endpoints.iter().find(ready)?["addresses"][0].as_str()?;
            let port = u16::try_from(port).ok()?;
            own.then(|| (ip.to_owned(), port))
        });
        found.ok_or_else(|| format!("no endpoints available for service \"{name}\""))
    }

    /// Returns the name of the next conversion in this run of the verb, to count its webhook calls (`MOST_CHANGES`).
    /// The name is a number, because a write converts its object several times.
    pub(crate) fn next_conversion(&self) -> String {
        let mut verb_state = self.verb_state.borrow_mut();
        verb_state.conversions += 1;
        format!("conversion {}", verb_state.conversions)
    }

    /// Records warnings for the client, sent whether the request succeeds or not: the texts of `Warning` headers
    /// without code and quotes. Drops duplicates.
    pub fn note_warnings(&self, texts: Vec<String>) {
        let warnings = &mut self.verb_state.borrow_mut().warnings;
        for text in texts {
            warnings.note(text);
        }
    }

    pub(crate) fn note_unknown(&self, fields: Vec<String>) {
        self.verb_state.borrow_mut().warnings.note_unknown(fields);
    }

    /// Returns and clears the recorded warnings. `true`: the body of the request was decoded, and the warnings contain
    /// its unknown fields.
    pub fn take_warnings(&self) -> (bool, Vec<String>) {
        self.verb_state.borrow_mut().warnings.take()
    }
}
