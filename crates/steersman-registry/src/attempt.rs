//! Machine: a verb that may have to ask webhooks: it stops with the question, and is run again
//! with the answer.
//!
//! Nothing waits in a verb (SRV-1). One that needs an answer it does not have notes the question,
//! refuses, and so has changed nothing; whoever runs it asks outside the lock and runs it again.
//! Answers belong to exact questions: where the object changed meanwhile, the question is another
//! one (ADM-1).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde_json::Value;
use steersman_schema::resource::{Resource, StorageKey};
use steersman_text::status::Status;

use crate::webhook::{Answer, Call, Question};

use super::memory::Memory;
use super::rng::Rng;
use super::state::{MODIFIED, Registry};

/// How often one webhook is asked anew because what it was asked about changed meanwhile.
const MOST_CHANGES: usize = 5;

/// What is kept between the runs of a verb.
#[derive(Debug, Default)]
pub struct Attempt {
    memory: Memory,
    /// Where uids and generated names come from: every run draws the same ones.
    rng: Option<Rng>,
}

impl Attempt {
    /// Takes the answer to a question that a run stopped with.
    pub fn learn(&mut self, key: String, answer: Answer) {
        self.memory.answers.insert(key, answer);
    }

    /// What the client is to be warned of by the last run.
    pub fn warnings(&mut self) -> Vec<String> {
        self.memory.warnings.take().1
    }
}

impl Registry {
    /// Runs a verb as far as the answers of the attempt let it. Without webhooks that is to its
    /// end.
    ///
    /// # Errors
    /// What has to be asked before it can go on; nothing was changed then.
    pub fn attempt<R>(
        &mut self,
        attempt: &mut Attempt,
        verb: impl FnOnce(&mut Self) -> R,
    ) -> Result<R, Question> {
        attempt.memory.warnings.take();
        if !self.has_webhooks() {
            self.memory.get_mut().warnings.take();
            let result = verb(self);
            attempt.memory.warnings = std::mem::take(&mut self.memory.get_mut().warnings);
            return Ok(result);
        }
        let fork = attempt.rng.get_or_insert_with(|| self.rng.fork());
        let own = std::mem::replace(&mut self.rng, fork.clone());
        let addresses = self.last_address;
        attempt.memory.attended = true;
        std::mem::swap(&mut attempt.memory, self.memory.get_mut());
        // What was put in is taken out again even where the verb panics (SRV-4).
        let result = catch_unwind(AssertUnwindSafe(|| verb(self)));
        std::mem::swap(&mut attempt.memory, self.memory.get_mut());
        self.rng = own;
        let result = result.unwrap_or_else(|panic| resume_unwind(panic));
        let calls = std::mem::take(&mut attempt.memory.pending);
        if calls.is_empty() {
            return Ok(result);
        }
        self.last_address = addresses;
        Err(Question { calls })
    }

    /// Whether a driver stands by, who can ask: the server's own acts and a test's direct access
    /// pass no webhooks.
    pub(super) fn is_attended(&self) -> bool {
        self.memory.borrow().attended
    }

    /// Whether the verb that is running has noted a question.
    pub(super) fn is_waiting(&self) -> bool {
        !self.memory.borrow().pending.is_empty()
    }

    /// The revision at which the request lists: a list that had to ask goes on where it began, so
    /// that the answers fit.
    pub(super) fn newest(&self) -> u64 {
        let pinned = self.memory.borrow().pinned;
        pinned.unwrap_or_else(|| self.store.revision())
    }

    /// Keeps the revision of a list that stops with a question.
    pub(super) fn pin(&self, revision: u64) {
        if self.is_waiting() {
            self.memory.borrow_mut().pinned = Some(revision);
        }
    }

    /// Lets a list begin at the newest revision again.
    pub(super) fn unpin(&self) {
        self.memory.borrow_mut().pinned = None;
    }

    /// The answers to calls, in their order.
    ///
    /// # Errors
    /// Where one is still to be had; the caller changes nothing and passes it on. A conflict where
    /// what is asked about changes faster than webhooks answer.
    pub(super) fn answers(
        &self,
        (resource, name): (&Resource, &str),
        calls: Vec<(String, Call)>,
    ) -> Result<Vec<Answer>, Status> {
        let mut memory = self.memory.borrow_mut();
        let known = |memory: &Memory, key: &str| memory.answers.get(key).cloned();
        let all: Option<Vec<Answer>> = calls
            .iter()
            .map(|(_, one)| known(&memory, &one.key))
            .collect();
        if let Some(all) = all {
            return Ok(all);
        }
        for (place, call) in calls {
            if memory.answers.contains_key(&call.key) {
                continue;
            }
            let times = memory.asked.entry(place).or_default();
            *times += 1;
            if *times > MOST_CHANGES {
                memory.pending.clear();
                let why = MODIFIED;
                return Err(Status::conflict(resource.subject(), name, why));
            }
            memory.pending.push(call);
        }
        Err(Status::internal(
            "a webhook is still to be asked".to_owned(),
        ))
    }

    /// Where a Service leads: its first ready address, and the port of that name there.
    ///
    /// # Errors
    /// Why there is none, in the words of a real server's resolver.
    pub fn service_address(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<(String, u16), String> {
        let of = |plural: &str| {
            self.store
                .get(&StorageKey::new("", plural), namespace, name)
        };
        let Some(service) = of("services") else {
            return Err(format!("service \"{name}\" not found"));
        };
        let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let ports = listed(&service.value["spec"]["ports"]);
        let Some(asked) = ports.iter().find(|one| one["port"] == port) else {
            return Err(format!(
                "no service port {port} found for service \"{name}\""
            ));
        };
        let subsets = of("endpoints").map(|found| listed(&found.value["subsets"]));
        for subset in subsets.unwrap_or_default() {
            let ports = listed(&subset["ports"]);
            let found = ports.iter().find(|one| one["name"] == asked["name"]);
            let ip = subset["addresses"][0]["ip"].as_str();
            let target = found.and_then(|one| u16::try_from(one["port"].as_u64()?).ok());
            if let (Some(ip), Some(target)) = (ip, target) {
                return Ok((ip.to_owned(), target));
            }
        }
        let slices = StorageKey::new("discovery.k8s.io", "endpointslices");
        let label = "kubernetes.io/service-name";
        let mut slices = self.store.list(&slices, Some(namespace));
        let found = slices.find_map(|slice| {
            let value = &slice.value;
            let own = value["metadata"]["labels"][label] == *name;
            let of_port = |one: &&Value| one["name"] == asked["name"] || ports.len() == 1;
            let port = listed(&value["ports"]).iter().find(of_port)?["port"].as_u64()?;
            let endpoints = listed(&value["endpoints"]);
            let ready = |one: &&Value| one["conditions"]["ready"] != false;
            let ip = endpoints.iter().find(ready)?["addresses"][0].as_str()?;
            let port = u16::try_from(port).ok()?;
            own.then(|| (ip.to_owned(), port))
        });
        found.ok_or_else(|| format!("no endpoints available for service \"{name}\""))
    }

    /// Notes what the client is to be warned of, whatever comes of its request: texts for `Warning`
    /// headers, without code and quotes. The same text is told once.
    pub fn note_warnings(&self, texts: Vec<String>) {
        let warnings = &mut self.memory.borrow_mut().warnings;
        for text in texts {
            warnings.note(text);
        }
    }

    /// Notes the unknown fields of a body that was decoded.
    pub(super) fn note_unknown(&self, fields: Vec<String>) {
        self.memory.borrow_mut().warnings.note_unknown(fields);
    }

    /// Takes back what the client was to be warned of until now; `true` where a body was decoded.
    pub fn take_warnings(&self) -> (bool, Vec<String>) {
        self.memory.borrow_mut().warnings.take()
    }
}
