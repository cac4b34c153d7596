//! Words: what the Leases of a group say: its members and its assignment.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use steersman_object::ObjectKey;

use crate::assignment::Assignment;

/// The label of all Leases of a group; its value is the name of the group.
pub(crate) const GROUP: &str = "steersman/shard-group";
/// The annotation of a member: the uid of the group's Lease and the generation that the member has obeyed.
pub(crate) const OBEYED: &str = "steersman/shards-obeyed";
/// The annotation of a member: its [division](steersman_object::ShardBy::division).
pub(crate) const DIVISION: &str = "steersman/shards-division";
/// The annotation of a member that leaves: [`LEAVING`] or [`RELEASED`].
pub(crate) const STANDING: &str = "steersman/shards-standing";
/// The annotation of the group's Lease: an [`Assignment`] as JSON.
pub(crate) const ASSIGNMENT: &str = "steersman/shards-assignment";

const LEAVING: &str = "leaving";
const RELEASED: &str = "released";

/// Whether a member takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Standing {
    #[default]
    Member,
    /// It takes no new work, and runs what it has begun to its end.
    Leaving,
    /// It works on nothing, and never will again.
    Released,
}

/// A generation of the assignment in one Lease. A Lease that is created again has another uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obeyed {
    pub(crate) uid: String,
    pub(crate) generation: u64,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct MemberContent {
    pub(crate) standing: Standing,
    pub(crate) division: String,
    /// The newest generation by which the member works: it works on no slot that this generation takes away from it.
    pub(crate) obeyed: Option<Obeyed>,
}

/// The Lease of a member, as it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberRecord {
    /// The resource version, which each renewal changes.
    pub(crate) version: String,
    pub(crate) content: MemberContent,
}

/// The Lease of the group, as it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    pub(crate) uid: String,
    pub(crate) version: String,
    /// The assignment, or why it cannot be read.
    pub(crate) assignment: Result<Assignment, String>,
}

/// All Leases of a group at one revision of the server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct GroupSnapshot {
    pub(crate) members: BTreeMap<String, MemberRecord>,
    pub(crate) group: Option<GroupRecord>,
}

impl GroupSnapshot {
    /// Reads the Leases with the label of a group. The Lease with the name of the group has the assignment.
    pub(crate) fn of(group: &str, leases: &[Lease]) -> Self {
        let mut this = Self::default();
        for lease in leases {
            let meta = &lease.metadata;
            let (name, version) = (
                meta.name.clone().unwrap_or_default(),
                meta.resource_version.clone().unwrap_or_default(),
            );
            if name == group {
                let text = annotation(lease, ASSIGNMENT);
                this.group = Some(GroupRecord {
                    uid: meta.uid.clone().unwrap_or_default(),
                    version,
                    assignment: Assignment::parse(text.unwrap_or_default()),
                });
            } else {
                let content = MemberContent::of(lease);
                this.members.insert(name, MemberRecord { version, content });
            }
        }
        this
    }
}

impl MemberContent {
    pub(crate) fn of(lease: &Lease) -> Self {
        let obeyed = annotation(lease, OBEYED).and_then(|text| {
            let (uid, generation) = text.rsplit_once('/')?;
            Some(Obeyed {
                uid: uid.to_owned(),
                generation: generation.parse().ok()?,
            })
        });
        let standing = match annotation(lease, STANDING) {
            Some(LEAVING) => Standing::Leaving,
            Some(RELEASED) => Standing::Released,
            _ => Standing::Member,
        };
        let division = annotation(lease, DIVISION).unwrap_or_default().to_owned();
        Self {
            standing,
            division,
            obeyed,
        }
    }

    /// Makes the Lease of a member: `version` is that of the known Lease, `None` for a new one.
    pub(crate) fn lease(
        &self,
        key: &ObjectKey,
        group: &str,
        seconds: i32,
        wall: Timestamp,
    ) -> Lease {
        let mut lease = labelled(key, group);
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(DIVISION.to_owned(), self.division.clone());
        if let Some(Obeyed { uid, generation }) = &self.obeyed {
            annotations.insert(OBEYED.to_owned(), format!("{uid}/{generation}"));
        }
        let standing = match self.standing {
            Standing::Member => None,
            Standing::Leaving => Some(LEAVING),
            Standing::Released => Some(RELEASED),
        };
        if let Some(standing) = standing {
            annotations.insert(STANDING.to_owned(), standing.to_owned());
        }
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = (self.standing != Standing::Released).then(|| key.name().to_owned());
        spec.lease_duration_seconds = Some(seconds);
        spec.renew_time = Some(MicroTime(wall));
        lease
    }
}

/// Makes the Lease of the group. Its holder is the member that assigned.
pub(crate) fn group_lease(
    key: &ObjectKey,
    assignment: &Assignment,
    assigner: &str,
    wall: Timestamp,
) -> Lease {
    let mut lease = labelled(key, key.name());
    let text = serde_json::to_string(assignment);
    // Numbers and texts always have a JSON.
    let text = text.unwrap_or_default();
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(ASSIGNMENT.to_owned(), text);
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(assigner.to_owned());
    spec.renew_time = Some(MicroTime(wall));
    lease
}

fn labelled(key: &ObjectKey, group: &str) -> Lease {
    let mut lease = Lease {
        metadata: key.to_meta(),
        ..Lease::default()
    };
    let labels = lease.metadata.labels.get_or_insert_default();
    labels.insert(GROUP.to_owned(), group.to_owned());
    lease
}

fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    let annotations = lease.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}
