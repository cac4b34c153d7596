//! Machine: the arithmetic of a rollout: how large each ReplicaSet of a Deployment may be.

use serde_json::Value;

use super::facts::{number, share};

/// What a Deployment wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) replicas: i64,
    /// How many Pods there may be beyond the replicas.
    pub(super) surge: i64,
    /// How many of the replicas may be unavailable.
    pub(super) unavailable: i64,
}

/// What is known of one ReplicaSet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// What its spec asks for.
    pub(super) wanted: i64,
    /// What is available of it.
    pub(super) available: i64,
}

impl Terms {
    pub(super) fn of(deployment: &Value) -> Self {
        let spec = &deployment["spec"];
        let replicas = number(&spec["replicas"], 1).max(0);
        if spec["strategy"]["type"] == "Recreate" {
            return Self {
                replicas,
                surge: 0,
                unavailable: 0,
            };
        }
        let rolling = &spec["strategy"]["rollingUpdate"];
        let surge = share(&rolling["maxSurge"], replicas, true);
        let mut unavailable = share(&rolling["maxUnavailable"], replicas, false);
        if surge == 0 && unavailable == 0 {
            // Otherwise nothing could ever move.
            unavailable = 1;
        }
        Self {
            replicas,
            surge,
            unavailable: unavailable.min(replicas),
        }
    }

    /// How large the new set becomes next to what there is in all.
    pub(super) fn grow(&self, new: Size, total: i64) -> i64 {
        if new.wanted >= self.replicas {
            return self.replicas;
        }
        let room = (self.replicas + self.surge - total).max(0);
        new.wanted + room.min(self.replicas - new.wanted)
    }

    /// How large the old sets, the oldest first, become next to the new one: first what is not
    /// available of them goes, then as much as leaves enough available.
    pub(super) fn shrink(&self, old: &[Size], new: Size) -> Vec<i64> {
        let mut sizes: Vec<i64> = old.iter().map(|size| size.wanted).collect();
        let total = sizes.iter().sum::<i64>() + new.wanted;
        let least = self.replicas - self.unavailable;
        let mut spare = total - least - (new.wanted - new.available);
        if spare <= 0 {
            return sizes;
        }
        for (wanted, size) in sizes.iter_mut().zip(old) {
            let broken = (*wanted - size.available).clamp(0, spare);
            *wanted -= broken;
            spare -= broken;
        }
        let available = old.iter().map(|size| size.available).sum::<i64>() + new.available;
        let mut left = (available - least).max(0);
        for wanted in &mut sizes {
            let down = (*wanted).clamp(0, left);
            *wanted -= down;
            left -= down;
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const fn size(wanted: i64, available: i64) -> Size {
        Size { wanted, available }
    }

    /// PLAY-4
    #[test]
    fn a_rollout_keeps_its_bounds_at_every_step() {
        for (replicas, surge, unavailable) in [(10, "25%", "25%"), (3, "1", "0"), (4, "0", "2")] {
            let read = |text: &str| text.parse::<i64>().map_or(json!(text), |n| json!(n));
            let deployment = json!({"spec": {"replicas": replicas, "strategy": {
                "rollingUpdate": {"maxSurge": read(surge), "maxUnavailable": read(unavailable)},
            }}});
            let terms = Terms::of(&deployment);
            let (mut old, mut new) = (size(replicas, replicas), size(0, 0));
            for _ in 0..40 {
                new.wanted = terms.grow(new, old.wanted + new.wanted);
                assert!(old.wanted + new.wanted <= replicas + terms.surge);
                old.wanted = terms.shrink(&[old], new)[0];
                old.available = old.available.min(old.wanted);
                assert!(old.available + new.available >= replicas - terms.unavailable);
                // One Pod gets ready at a time.
                new.available = (new.available + 1).min(new.wanted);
            }
            assert_eq!((old.wanted, new.wanted), (0, replicas));
        }
    }

    #[test]
    fn what_is_not_available_goes_first() {
        let terms = Terms {
            replicas: 4,
            surge: 1,
            unavailable: 1,
        };
        assert_eq!(terms.shrink(&[size(3, 1), size(1, 1)], size(1, 1)), [1, 1]);
    }

    #[test]
    fn percentages_are_rounded_as_upstream_rounds_them() {
        let terms = Terms::of(&json!({"spec": {"replicas": 3, "strategy": {
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
        }}}));
        assert_eq!((terms.surge, terms.unavailable), (1, 0));
        let none = Terms::of(&json!({"spec": {"replicas": 3, "strategy": {
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0},
        }}}));
        assert_eq!(none.unavailable, 1);
    }
}
