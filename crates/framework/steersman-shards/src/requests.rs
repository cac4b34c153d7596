//! Driver: sends the requests of a member through a client of its own.

use k8s_openapi::api::coordination::v1::Lease;
use steersman_api::{
    Api, ApiListWatch, ClientConfig, Decoded, DeleteOptions, Error, ListWatch as _, Paging,
    WatchOptions, WatchStream, WriteOptions,
};
use steersman_object::{LabelSelector, ListOptions, ObjectKey, ResourceVersion, report};

use crate::assigner::GroupWrite;
use crate::machine::RenewReply;
use crate::options::MemberOptions;
use crate::record::{GROUP, GroupSnapshot, MemberContent, group_lease};

/// The suffix of the `User-Agent` of a member's requests.
const AGENT: &str = "shards";

/// The answer to a list: the snapshot, and the version after which a watch shows the changes.
pub(crate) type Listed = Result<(GroupSnapshot, ResourceVersion), String>;

/// Sends the requests of one member. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ShardRequests {
    api: Api<Lease>,
    list_watch: ApiListWatch,
    options: MemberOptions,
}

impl ShardRequests {
    /// Makes a client for the current runtime. It shares no connection with other clients of the program, and notices a
    /// dead connection in time for another renewal (LEASE-6).
    pub(crate) async fn connect(
        client_config: &ClientConfig,
        options: &MemberOptions,
    ) -> Result<Self, Error> {
        let timing = options.given.timing;
        let client_config = client_config
            .clone()
            .user_agent_suffix(AGENT)
            .ping_interval(timing.retry_period)
            .ping_timeout(timing.retry_period);
        let client = client_config.connect().await?;
        let api = Api::typed(client.clone()).request_timeout(timing.request_limit());
        let namespace = options.group.namespace().map(str::to_owned);
        let list_watch = ApiListWatch::new(client, api.kind().clone(), namespace);
        Ok(Self {
            api,
            list_watch,
            options: options.clone(),
        })
    }

    pub(crate) async fn renew(
        self,
        content: MemberContent,
        version: Option<String>,
    ) -> (RenewReply, Option<String>) {
        let options = &self.options;
        let mut lease = content.lease(
            &options.member,
            options.group.name(),
            options.given.timing.lease_seconds(),
            (options.given.clock)(),
        );
        let is_create = version.is_none();
        lease.metadata.resource_version = version;
        let write = WriteOptions::default();
        let sent = match is_create {
            true => self.api.create(&lease, &write).await,
            false => self.api.update(&lease, &write).await,
        };
        match sent {
            Ok(lease) => {
                let version = lease.metadata.resource_version.unwrap_or_default();
                (RenewReply::Renewed(version), None)
            }
            Err(error) if error.is_not_found() && !is_create => (RenewReply::Gone, None),
            // A create without a reply was executed, or another party removed the label that lists select.
            Err(error) if error.is_already_exists() => match self.api.get(&options.member).await {
                Ok(lease) => {
                    let version = lease.metadata.resource_version.unwrap_or_default();
                    (RenewReply::Exists(version), None)
                }
                Err(error) => (RenewReply::Failed, Some(report(&error).to_string())),
            },
            Err(error) if error.is_conflict() => (RenewReply::Outdated, None),
            Err(error) => (RenewReply::Failed, Some(report(&error).to_string())),
        }
    }

    /// Lists all Leases of the group at one version, the newest.
    pub(crate) async fn list(self) -> Listed {
        let group = self.options.group.name();
        let selected = ListOptions::new()
            .namespace(self.options.group.namespace().unwrap_or_default())
            .labels(LabelSelector::label(GROUP, group));
        let page = self.api.list_all(&selected, &Paging::new()).await;
        let page = page.map_err(|error| report(&error).to_string())?;
        let leases = page.items.into_iter().filter_map(|item| match item {
            Decoded::Good(lease) => Some(lease),
            Decoded::Malformed(_) => None,
        });
        let leases: Vec<Lease> = leases.collect();
        Ok((GroupSnapshot::of(group, &leases), page.version))
    }

    pub(crate) async fn watch(self, after: ResourceVersion) -> Result<WatchStream, String> {
        let mut options = WatchOptions::after(after);
        options.labels = Some(format!("{GROUP}={}", self.options.group.name()));
        let watch = self.list_watch.watch(&options).await;
        watch.map_err(|error| report(&error).to_string())
    }

    /// Carries out a write of the assigner. A refused one is no error: the next list shows why.
    pub(crate) async fn write(self, write: GroupWrite) -> Result<(), String> {
        let options = &self.options;
        let wall = (options.given.clock)();
        let assigner = options.member.name();
        let write_options = WriteOptions::default();
        let sent = match write {
            GroupWrite::Create(assignment) => {
                let lease = group_lease(&options.group, &assignment, assigner, wall);
                match self.api.create(&lease, &write_options).await {
                    Err(error) if error.is_already_exists() => return self.check_group().await,
                    other => other.map(drop),
                }
            }
            GroupWrite::Replace(assignment, version) => {
                let mut lease = group_lease(&options.group, &assignment, assigner, wall);
                lease.metadata.resource_version = Some(version);
                self.api.update(&lease, &write_options).await.map(drop)
            }
            GroupWrite::Delete(name, version) => {
                let namespace = options.group.namespace().unwrap_or_default();
                let key = ObjectKey::namespaced(namespace, &*name);
                let mut delete = DeleteOptions::default();
                delete.resource_version = Some(ResourceVersion::new(version));
                self.api.delete(&key, &delete).await.map(drop)
            }
        };
        match sent {
            Err(error)
                if error.is_conflict() || error.is_already_exists() || error.is_not_found() =>
            {
                Ok(())
            }
            other => other.map_err(|error| report(&error).to_string()),
        }
    }

    /// Returns why the Lease of the group exists although no list shows it; `Ok` if another member has just created it.
    async fn check_group(&self) -> Result<(), String> {
        let group = &self.options.group;
        let found = self.api.get_opt(group).await;
        let found = found.map_err(|error| report(&error).to_string())?;
        let labels = found.and_then(|lease| lease.metadata.labels);
        match labels
            .is_none_or(|labels| labels.get(GROUP).map(String::as_str) != Some(group.name()))
        {
            true => Err(format!(
                "the Lease {group} exists without the label {GROUP}={}, so it is not that of the shards: give the group another name, or delete the Lease",
                group.name()
            )),
            false => Ok(()),
        }
    }
}
