//! The server of a simulated group: its Leases, and what it does with requests.

use super::GROUP;
use crate::assigner::GroupWrite;
use crate::machine::RenewReply;
use crate::record::{GroupRecord, GroupSnapshot, MemberContent, MemberRecord};

#[derive(Clone, Debug)]
pub(super) enum Request {
    Renew(MemberContent, Option<String>),
    List,
    Write(GroupWrite),
}

#[derive(Debug)]
pub(super) enum Reply {
    Renewed(RenewReply),
    Listed(Option<GroupSnapshot>),
    Written(bool),
}

#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) revision: u64,
    uids: u64,
    pub(super) snapshot: GroupSnapshot,
    /// The writes so far, for the message of a failure.
    pub(super) writes: Vec<String>,
}

impl Server {
    pub(super) fn execute(&mut self, name: &str, request: &Request) -> Reply {
        match request {
            Request::List => Reply::Listed(Some(self.snapshot.clone())),
            Request::Renew(content, version) => Reply::Renewed(self.renew(name, content, version)),
            Request::Write(write) => Reply::Written(self.write(write)),
        }
    }

    pub(super) fn next(&mut self) -> String {
        self.revision += 1;
        self.revision.to_string()
    }

    fn renew(
        &mut self,
        name: &str,
        content: &MemberContent,
        version: &Option<String>,
    ) -> RenewReply {
        let known = self
            .snapshot
            .members
            .get(name)
            .map(|one| one.version.clone());
        if version.is_some() && known.is_none() {
            return RenewReply::Gone;
        }
        match (version, known) {
            (None, Some(known)) => return RenewReply::Exists(known),
            (version, known) if *version != known => return RenewReply::Outdated,
            _ => {}
        }
        let version = self.next();
        let record = MemberRecord {
            version: version.clone(),
            content: content.clone(),
        };
        self.snapshot.members.insert(name.to_owned(), record);
        RenewReply::Renewed(version)
    }

    fn write(&mut self, write: &GroupWrite) -> bool {
        let known = self.snapshot.group.clone();
        let (uid, assignment) = match (write, known) {
            (GroupWrite::Create(assignment), None) => {
                self.uids += 1;
                (format!("uid-{}", self.uids), assignment)
            }
            (GroupWrite::Replace(assignment, version), Some(known))
                if *version == known.version =>
            {
                (known.uid, assignment)
            }
            (GroupWrite::Delete(name, version), Some(known)) if name == GROUP => {
                let is_known = *version == known.version;
                if is_known {
                    self.snapshot.group = None;
                }
                return is_known;
            }
            (GroupWrite::Delete(name, version), _) => {
                let members = &mut self.snapshot.members;
                let is_known = members.get(name).is_some_and(|one| one.version == *version);
                if is_known {
                    members.remove(name);
                }
                return is_known;
            }
            _ => return false,
        };
        self.snapshot.group = Some(GroupRecord {
            uid,
            version: self.next(),
            assignment: Ok(assignment.clone()),
        });
        true
    }
}
