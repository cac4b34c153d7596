//! Simulates a cluster in which leaders are killed: every API server trusts every replica during a rotation.

use std::collections::HashMap;

use steersman_testenv::seeds::{self, SeededRng};

use super::*;

/// A replica: the certificate that it presents, and the second at which it last read the Secret.
#[derive(Clone, Copy)]
struct Replica {
    leaf: usize,
    read: u64,
}

/// A webhook configuration: its current bundle, and the bundle that each API server uses.
struct Configuration {
    bundle: usize,
    servers: [ServerView; 2],
}

/// The bundle that an API server uses, and the second since which that bundle is outdated.
#[derive(Clone, Copy)]
struct ServerView {
    bundle: usize,
    outdated: Option<u64>,
}

/// Simulated replicas, API servers and leaders. Their clocks differ, and leaders are killed at any time.
///
/// Certificates and bundles have numbers, so that each signature is verified only once.
struct Cluster {
    rng: SeededRng,
    world: World,
    leaves: Vec<ParsedCertificate>,
    bundles: Vec<Vec<ParsedCertificate>>,
    /// Whether a bundle trusts a certificate. The key is the number of the bundle and of the certificate.
    trusted: HashMap<(usize, usize), bool>,
    /// The numbers of the certificate and of the bundle in the Secret.
    stored: (usize, usize),
    is_whole: bool,
    replicas: [Replica; 3],
    configurations: [Configuration; 2],
    seconds: u64,
    /// The second at which the current leader dies, or the next leader starts.
    leader_until: u64,
    is_leading: bool,
}

impl Cluster {
    /// Makes a steady cluster with an authority that is due for replacement.
    fn new(seed: u64) -> Self {
        let settings = RotationSettings {
            authority_lifetime: 10 * DAY,
            leaf_lifetime: 10 * DAY,
            ..settings()
        };
        let mut world = World::new(settings);
        world.look();
        world.pass(7 * DAY);
        let stored = world.stored();
        let view = ServerView {
            bundle: 0,
            outdated: None,
        };
        let configuration = || Configuration {
            bundle: 0,
            servers: [view; 2],
        };
        Self {
            rng: SeededRng::new(seed),
            leaves: vec![stored.leaf.unwrap().certificate],
            bundles: vec![stored.bundle],
            trusted: HashMap::new(),
            stored: (0, 0),
            is_whole: true,
            replicas: [Replica { leaf: 0, read: 0 }; 3],
            configurations: [configuration(), configuration()],
            world,
            seconds: 0,
            leader_until: 0,
            is_leading: false,
        }
    }

    /// Runs the leader once, and all other parts until the next round.
    fn round(&mut self) {
        self.elect();
        if self.is_leading {
            self.lead();
        }
        for _ in 0..=self.rng.below(INTERVAL.as_secs()) {
            self.seconds += 1;
            self.world.pass(SECOND);
            self.read_by_replicas();
            self.see_by_servers();
            self.check();
        }
    }

    /// Kills and elects leaders. The clock of each leader is within 10 min of the true time.
    fn elect(&mut self) {
        if self.seconds < self.leader_until {
            return;
        }
        self.is_leading = !self.is_leading;
        let life = if self.is_leading { 900 } else { 60 };
        self.leader_until = self.seconds + self.rng.below(life);
        if self.is_leading {
            let begin: Timestamp = "2026-03-08T12:00:00Z".parse().unwrap();
            let signed = |seconds: u64| i64::try_from(seconds).unwrap();
            let clock = begin.as_second() + signed(self.seconds + self.rng.below(1200)) - 600;
            self.world
                .replace_leader(clock - self.world.wall.as_second());
        }
    }

    /// Runs the leader once. It may be killed between two requests.
    fn lead(&mut self) {
        let Some(was_injected) = self.inject() else {
            return;
        };
        self.world.is_injected = was_injected;
        if self.world.look().is_some() {
            let stored = self.world.stored();
            self.is_whole = is_whole(&stored);
            let leaf = stored.leaf.unwrap().certificate;
            self.stored = (
                number(&mut self.leaves, leaf),
                number(&mut self.bundles, stored.bundle),
            );
            self.inject();
        }
    }

    /// Injects the bundle of the Secret. Returns whether the bundle was there; `None` if the leader was killed.
    fn inject(&mut self) -> Option<bool> {
        let (_, bundle) = self.stored;
        let mut was_injected = true;
        for configuration in &mut self.configurations {
            if self.rng.below(1000) < 5 {
                self.leader_until = self.seconds;
                return None;
            }
            if configuration.bundle != bundle {
                was_injected = false;
                configuration.bundle = bundle;
                for server in &mut configuration.servers {
                    server.outdated.get_or_insert(self.seconds);
                }
            }
        }
        Some(was_injected)
    }

    /// Lets each replica read the Secret at least once in two intervals, because one read may fail.
    fn read_by_replicas(&mut self) {
        for replica in &mut self.replicas {
            let is_late = self.seconds - replica.read >= 2 * INTERVAL.as_secs();
            if is_late || self.rng.chance(10) {
                *replica = Replica {
                    leaf: self.stored.0,
                    read: self.seconds,
                };
            }
        }
    }

    /// Lets each API server notice a changed configuration within the overlap.
    fn see_by_servers(&mut self) {
        for configuration in &mut self.configurations {
            for server in &mut configuration.servers {
                let is_late = |outdated| self.seconds - outdated >= OVERLAP.as_secs();
                if server.outdated.is_some_and(is_late) || self.rng.chance(1) {
                    *server = ServerView {
                        bundle: configuration.bundle,
                        outdated: None,
                    };
                }
            }
        }
    }

    /// CERT-1: every api-server trusts every replica.
    fn check(&mut self) {
        let servers = self.configurations.iter().flat_map(|one| &one.servers);
        for server in servers {
            for replica in &self.replicas {
                let pair = (replica.leaf, server.bundle);
                let verify = || is_trusted(&self.leaves[pair.0], &self.bundles[pair.1]);
                let is_trusted = *self.trusted.entry(pair).or_insert_with(verify);
                assert!(is_trusted, "after {} s", self.seconds);
            }
        }
    }

    /// Returns whether all parts use one authority, and the first authority is gone.
    fn is_finished(&self) -> bool {
        let (_, bundle) = self.stored;
        let mut configurations = self.configurations.iter();
        bundle != 0
            && self.is_whole
            && configurations.all(|configuration| configuration.bundle == bundle)
    }
}

/// Returns the index of a value in a list, and appends the value if it is new.
fn number<T: PartialEq>(all: &mut Vec<T>, value: T) -> usize {
    let known = all.iter().position(|one| *one == value);
    known.unwrap_or_else(|| {
        all.push(value);
        all.len() - 1
    })
}

/// CERT-1, CERT-2, CERT-3
#[test]
fn every_api_server_trusts_every_replica_at_each_moment_of_a_rotation() {
    let again =
        "STEERSMAN_SEEDS=N..N+1 cargo test -p steersman-webhook every_api_server, where N is";
    seeds::live(0..8, again, |seed| {
        let mut cluster = Cluster::new(seed);
        while !cluster.is_finished() {
            cluster.round();
            assert!(cluster.seconds < 24 * 3600, "the rotation does not end");
        }
    });
}
