//! Words: the options of a group of replicas that share the work.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_lease::Timing;
use steersman_object::names::is_subdomain;
use steersman_object::{ObjectKey, ShardBy};

use crate::error::Error;

/// The wall clock that gives the times in the Leases, by which no member decides.
type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The options of a group of replicas that share the work: its name, and what decides the shard of an object.
///
/// ```
/// use steersman_shards::Shards;
///
/// let shards = Shards::by_namespace("website-operator").in_namespace("operators");
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Shards {{ group: {group:?}, by: {by:?}, namespace: {namespace:?}, .. }}")]
#[must_use = "options do nothing until a manager is made with them"]
pub struct Shards {
    pub(crate) group: String,
    pub(crate) by: ShardBy,
    pub(crate) namespace: Option<String>,
    pub(crate) timing: Timing,
    pub(crate) on_callers_runtime: bool,
    pub(crate) aborts: bool,
    pub(crate) seed: u64,
    pub(crate) clock: WallClock,
}

/// The validated options of one member, with every default filled in.
#[derive(Clone, Debug)]
pub(crate) struct MemberOptions {
    /// The key of the Lease of the group.
    pub(crate) group: ObjectKey,
    /// The key of the member's own Lease.
    pub(crate) member: ObjectKey,
    pub(crate) given: Shards,
}

/// The longest name of a group: the names of its Leases add the name of a Pod.
const LONGEST_GROUP: usize = 40;
/// The longest part of a host name in the name of a Lease.
const LONGEST_HOST: usize = 100;

impl Shards {
    /// Makes the options of a group of members that share all objects by their namespace, see [`ShardBy::Namespace`]. Only
    /// the replicas of one operator use the name of the group, which is that of a Lease.
    pub fn by_namespace(group: impl Into<String>) -> Self {
        Self::new(group, ShardBy::Namespace)
    }

    /// Makes the options of a group of members that share all objects by their namespace and name, see
    /// [`ShardBy::Name`], also those of one namespace. Children with the name of their owner are in its shard; others may
    /// be in that of another replica.
    pub fn by_name(group: impl Into<String>) -> Self {
        Self::new(group, ShardBy::Name)
    }

    /// Makes the options of a group of members that share all objects by the text that a function makes of an object's
    /// key: objects with equal texts are in one shard. All members must have the same function, which members compare by
    /// calling it with made-up keys, with and without a namespace.
    ///
    /// ```
    /// use steersman_object::ObjectKey;
    /// use steersman_shards::Shards;
    ///
    /// // The namespaces shop-blue and shop-green are in one shard.
    /// let shards = Shards::by("website-operator", |key: &ObjectKey| {
    ///     let namespace = key.namespace().unwrap_or(key.name());
    ///     namespace.split('-').next().unwrap_or_default().to_owned()
    /// });
    /// ```
    pub fn by(group: impl Into<String>, text: fn(&ObjectKey) -> String) -> Self {
        Self::new(group, ShardBy::Key(text))
    }

    /// Makes the options of a group of members that share all objects as `by` says.
    pub fn new(group: impl Into<String>, by: ShardBy) -> Self {
        Self {
            group: group.into(),
            by,
            namespace: None,
            timing: Timing::default(),
            on_callers_runtime: false,
            aborts: true,
            seed: RandomState::new().hash_one("steersman-shards"),
            clock: Arc::new(Timestamp::now),
        }
    }

    /// Sets the namespace of the Leases. The default is the namespace of the Pod, or of the current context of the
    /// kubeconfig.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the lease duration, the renew deadline and the retry period; 15 s, 10 s and 2 s by default, with the rules of
    /// [`LeaderElection::timing`](steersman_lease::LeaderElection::timing).
    ///
    /// - The slots of a member that crashed go to others when no renewal was seen for the lease duration.
    /// - A member stops its work when no renewal succeeded for the renew deadline (SHARD-3).
    /// - A member renews its Lease and lists those of the group once per retry period.
    pub fn timing(
        mut self,
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Self {
        self.timing = Timing {
            lease_duration,
            renew_deadline,
            retry_period,
        };
        self
    }

    /// Sets whether the process is aborted if a reconcile still runs half-way between the renew deadline and the expiry
    /// of the Lease; on by default. Without the abort, a reconcile that does not end may run beside that of another
    /// replica.
    pub fn abort_on_overrun(mut self, aborts: bool) -> Self {
        self.aborts = aborts;
        self
    }

    /// Sets the wall clock of the times in the Leases, by which no member decides; by default that of the system.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the seed of the random part of the member's name and of its pauses. By default it is random; members with
    /// one seed on one host would have one name.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs the membership on the runtime of the caller instead of its own thread, for tests with a paused clock.
    pub fn on_callers_runtime(mut self) -> Self {
        self.on_callers_runtime = true;
        self
    }

    /// Validates the options; `fallback` is the namespace of the `ClientConfig`.
    pub(crate) fn validate(self, fallback: Option<&str>) -> Result<MemberOptions, Error> {
        let group = self.group.clone();
        let is_short = group.len() <= LONGEST_GROUP;
        if !is_short || !is_subdomain(&group) || group.contains('.') {
            return Err(Error::Name { group });
        }
        if let Some(problem) = self.timing.problem() {
            let timing = self.timing;
            return Err(Error::Timing {
                group,
                lease_duration: timing.lease_duration,
                renew_deadline: timing.renew_deadline,
                retry_period: timing.retry_period,
                problem,
            });
        }
        let namespace = self.namespace.as_deref().or(fallback);
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else {
            return Err(Error::NoNamespace { group });
        };
        let member = format!("{group}-{}-{:08x}", host(), self.seed & 0xffff_ffff);
        Ok(MemberOptions {
            group: ObjectKey::namespaced(namespace, &*group),
            member: ObjectKey::namespaced(namespace, &*member),
            given: self,
        })
    }
}

/// Returns the host name (in a Pod, the name of the Pod) as a part of the name of a Lease.
fn host() -> String {
    let name = hostname::get().unwrap_or_default();
    let name = name.to_string_lossy().to_ascii_lowercase();
    let part = |character: char| match character {
        'a'..='z' | '0'..='9' => character,
        _ => '-',
    };
    let name: String = name.chars().take(LONGEST_HOST).map(part).collect();
    let name = name.trim_matches('-').to_owned();
    match name.is_empty() {
        true => "replica".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_a_lease_with_the_name_of_its_group_and_host() {
        let options = Shards::by_namespace("websites")
            .seed(0xab)
            .validate(Some("ops"))
            .unwrap();
        assert_eq!(options.group.to_string(), "ops/websites");
        let member = options.member.name();
        assert!(
            member.starts_with("websites-") && member.ends_with("-000000ab"),
            "{member}"
        );
        assert!(is_subdomain(member), "{member}");
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let long = "a".repeat(LONGEST_GROUP + 1);
        for name in ["", "A", "a.b", "a b", "-a", &long] {
            let refused = Shards::by_namespace(name)
                .validate(Some("ops"))
                .unwrap_err();
            assert!(matches!(refused, Error::Name { .. }), "{refused}");
        }
        let refused = Shards::by_namespace("a").validate(None).unwrap_err();
        assert!(matches!(refused, Error::NoNamespace { .. }), "{refused}");
        let second = Duration::from_secs(1);
        let short = Shards::by_namespace("a").timing(second, second, second);
        let refused = short.validate(Some("ops")).unwrap_err();
        assert!(matches!(refused, Error::Timing { .. }), "{refused}");
    }
}
