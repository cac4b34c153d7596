//! Driver: migrates the objects of a definition to the stored version, page by page.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use kube_core::{DynamicObject, PartialObjectMeta};
use serde_json::json;
use steersman_api::{Api, Decoded, Error as RequestError, Paging, Patch};
use steersman_object::{Kind, ListOptions, ObjectKey};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::error::Error;
use crate::progress::MigrationProgress;
use crate::requests::{CrdRequests, REQUEST_LIMIT};
use crate::status_board::CrdReport;

/// A migration of one definition's objects by empty patches: at each patch, the API server stores the object anew in
/// the stored version.
pub(crate) struct Migration<'a> {
    requests: &'a CrdRequests,
    report: CrdReport<'a>,
    kind: Kind,
    generation: i64,
    /// The number of migrated objects, including those before an interruption.
    done: u64,
    /// The number of objects that the server refused to store.
    refused: u64,
    /// The first refused objects, with the messages of the server.
    examples: Vec<String>,
    last_line: Instant,
}

/// The number of objects per page. The list reads metadata only.
const PAGE: u32 = 500;
/// The number of concurrent writes.
const AT_ONCE: usize = 8;
/// The number of refused objects that the error names.
const EXAMPLES: usize = 3;
/// The number of refused objects after which the migration stops, because most likely all others are refused, too.
const MOST_REFUSED: u64 = 100;
/// The pause between two progress lines in the log.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

impl<'a> Migration<'a> {
    pub(crate) fn new(
        requests: &'a CrdRequests,
        report: CrdReport<'a>,
        kind: Kind,
        generation: i64,
    ) -> Self {
        Self {
            requests,
            report,
            kind,
            generation,
            done: 0,
            refused: 0,
            examples: Vec::new(),
            last_line: Instant::now(),
        }
    }

    /// Migrates every object, starting at the saved progress.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`] if the server refused objects, and [`Error::Request`] if a request failed. A later call
    /// continues from the saved progress.
    pub(crate) async fn run(&mut self, progress: MigrationProgress) -> Result<(), Error> {
        self.done = progress.migrated;
        let mut token = progress.continue_token;
        loop {
            let (objects, next, remaining) = match self.page(token.as_deref()).await {
                Ok(page) => page,
                // The server no longer has the history for the continue token.
                Err(RequestError::Expired(refusal)) if token.is_some() => {
                    let metadata = refusal.status().metadata.as_ref();
                    token = metadata.and_then(|metadata| metadata.continue_.clone());
                    if token.is_none() {
                        self.done = 0;
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let stored = self.store(objects).await?;
            self.done += stored;
            self.report.migrated(stored, remaining);
            if self.refused >= MOST_REFUSED {
                break;
            }
            let Some(next) = next else { break };
            self.log(remaining);
            if self.refused == 0 {
                self.save(&next).await;
            }
            token = Some(next);
        }
        if self.refused > 0 {
            return Err(Error::NotMigrated {
                definition: self.report.name.to_owned(),
                version: self.kind.gvk().version().to_owned(),
                count: self.refused,
                examples: std::mem::take(&mut self.examples),
            });
        }
        Ok(())
    }

    /// Reads the next page. Returns its objects, the continue token, and the number of objects after the page.
    async fn page(
        &self,
        token: Option<&str>,
    ) -> Result<(Vec<(ObjectKey, String)>, Option<String>, Option<u64>), RequestError> {
        let mut paging = Paging::new().page_size(PAGE);
        if let Some(token) = token {
            paging = paging.continue_token(token);
        }
        let client = self.requests.client.clone();
        let objects = Api::<PartialObjectMeta<DynamicObject>>::new(client, self.kind.clone());
        let objects = objects.request_timeout(REQUEST_LIMIT);
        let page = objects.list(&ListOptions::new(), &paging).await?;
        let head = |item: Decoded<PartialObjectMeta<DynamicObject>>| match item {
            Decoded::Good(object) => {
                let metadata = &object.metadata;
                let version = metadata.resource_version.clone().unwrap_or_default();
                (ObjectKey::of_meta(metadata), version)
            }
            Decoded::Malformed(object) => (object.key.clone(), object.version.to_string()),
        };
        let keys = page.items.into_iter().map(head).collect();
        Ok((keys, page.continue_token, page.remaining))
    }

    /// Stores the objects of a page anew, and returns the number of objects stored.
    async fn store(&mut self, objects: Vec<(ObjectKey, String)>) -> Result<u64, Error> {
        let api = Api::<DynamicObject>::new(self.requests.client.clone(), self.kind.clone());
        let api = &api.request_timeout(REQUEST_LIMIT);
        let options = &self.requests.write_options();
        let mut answers = stream::iter(objects)
            .map(|(key, version)| async move {
                // DEF-3: the patch fails if another writer has changed the object, and thereby stored it anew.
                let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}}));
                let answer = api.patch(&key, &patch, options).await;
                (key, answer)
            })
            .buffer_unordered(AT_ONCE);
        let (mut stored, mut forbidden, mut others) = (0, None, 0);
        while let Some((key, answer)) = answers.next().await {
            match answer {
                Ok(_) => stored += 1,
                Err(error) if error.is_conflict() || error.is_not_found() => stored += 1,
                Err(error) if is_refusal(&error) => {
                    self.refused += 1;
                    if self.examples.len() < EXAMPLES {
                        self.examples.push(format!("{key}: {error}"));
                    }
                    match error.is_forbidden() {
                        true => forbidden = Some(error),
                        false => others += 1,
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        match forbidden {
            // All writes were refused for another reason than the object, such as a missing permission.
            Some(error) if stored == 0 && others == 0 => Err(error.into()),
            _ => Ok(stored),
        }
    }

    /// DEF-4: saves the progress in the definition, so that an interrupted migration does not start over.
    async fn save(&self, token: &str) {
        let progress = MigrationProgress {
            generation: self.generation,
            continue_token: Some(token.to_owned()),
            migrated: self.done,
        };
        if let Err(error) = self.requests.annotate(Some(progress.text())).await {
            let definition = self.report.name;
            warn!(definition, error = %error, "the progress of the migration cannot be saved");
        }
    }

    fn log(&mut self, remaining: Option<u64>) {
        if self.last_line.elapsed() < BETWEEN_LINES {
            return;
        }
        self.last_line = Instant::now();
        info!(
            definition = self.report.name,
            version = self.kind.gvk().version(),
            done = self.done,
            remaining,
            "storing objects in the present version"
        );
    }
}

/// Returns whether the server refused a write because of the object's content, which a retry does not change.
fn is_refusal(error: &RequestError) -> bool {
    error.is_invalid() || error.is_forbidden() || error.is_bad_request() || error.is_too_large()
}
