//! Driver: sends the requests of an election through a separate client.

use k8s_openapi::api::coordination::v1::Lease;
use steersman_api::{Api, ClientConfig, Error, WriteOptions};
use steersman_object::{ObjectKey, report};

use crate::machine::{LeaseRequest, Reply};
use crate::timing::Timing;

/// The suffix of the `User-Agent` of the elector's requests, as in controller-runtime.
const AGENT: &str = "leader-election";

/// Sends the requests for one Lease. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRequests {
    client_config: ClientConfig,
    key: ObjectKey,
    timing: Timing,
}

impl LeaseRequests {
    /// Makes the sender of requests. Its client shares no connection with other clients of the program, and notices a
    /// dead connection in time for another renewal (LEASE-6).
    pub(crate) fn new(client_config: &ClientConfig, key: ObjectKey, timing: Timing) -> Self {
        let client_config = client_config
            .clone()
            .user_agent_suffix(AGENT)
            .ping_interval(timing.retry_period)
            .ping_timeout(timing.retry_period);
        Self {
            client_config,
            key,
            timing,
        }
    }

    /// Makes a client for the current runtime. Its clones share connections.
    pub(crate) async fn connect(&self) -> Result<Api<Lease>, Error> {
        let client = self.client_config.connect().await?;
        Ok(Api::typed(client).request_timeout(self.timing.request_limit()))
    }

    pub(crate) async fn send(&self, api: &Api<Lease>, request: LeaseRequest) -> Reply {
        let options = WriteOptions::default();
        let failed = |error: &Error| Reply::Failed(report(error).to_string());
        let outdated = |error: &Error| Reply::Outdated(report(error).to_string());
        match request {
            LeaseRequest::Read => match api.get(&self.key).await {
                Ok(lease) => Reply::Lease(Box::new(lease)),
                Err(error) if error.is_not_found() => Reply::Absent,
                Err(error) => failed(&error),
            },
            LeaseRequest::Create(lease) => match api.create(&*lease, &options).await {
                Ok(lease) => Reply::Lease(Box::new(lease)),
                Err(error) if error.is_already_exists() || error.is_conflict() => outdated(&error),
                // A 404 of a create means that the namespace does not exist, which the error names.
                Err(error) => failed(&error),
            },
            LeaseRequest::Replace(lease) => match api.update(&*lease, &options).await {
                Ok(lease) => Reply::Lease(Box::new(lease)),
                Err(error) if error.is_conflict() || error.is_not_found() => outdated(&error),
                Err(error) => failed(&error),
            },
        }
    }
}
