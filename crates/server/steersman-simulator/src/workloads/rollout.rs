//! Machine: the arithmetic of a rollout, which computes the size of each ReplicaSet of a Deployment.

use serde_json::Value;

use crate::state::facts::{number, scaled_value};

/// The numbers in the spec of a Deployment that limit its rollout, with percentages resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RolloutTerms {
    pub(crate) replicas: i64,
    /// How many Pods may exist beyond `replicas` (`maxSurge`).
    pub(crate) surge: i64,
    /// How many of the replicas may be unavailable (`maxUnavailable`).
    pub(crate) unavailable: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SetSize {
    pub(crate) wanted: i64,
    pub(crate) available: i64,
}

/// The numbers of one ReplicaSet when its Deployment is scaled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ScaledSet {
    pub(crate) size: SetSize,
    /// The Deployment's replicas when the ReplicaSet was last sized, from its annotation; `None` if that is absent.
    pub(crate) desired: Option<i64>,
    /// The Deployment's replicas plus surge when the ReplicaSet was last sized, from its annotation; `None` if absent.
    pub(crate) max_replicas: Option<i64>,
}

impl RolloutTerms {
    pub(crate) fn of(deployment: &Value) -> Self {
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
        let surge = scaled_value(&rolling["maxSurge"], replicas, true);
        let mut unavailable = scaled_value(&rolling["maxUnavailable"], replicas, false);
        if surge == 0 && unavailable == 0 {
            // With neither surge nor unavailable Pods allowed, the rollout could change no Pod.
            unavailable = 1;
        }
        Self {
            replicas,
            surge,
            unavailable: unavailable.min(replicas),
        }
    }

    /// Returns the next size of the current template's ReplicaSet; `total` is the size of all ReplicaSets together.
    pub(crate) fn grow(&self, new: SetSize, total: i64) -> i64 {
        if new.wanted >= self.replicas {
            return self.replicas;
        }
        let room = (self.replicas + self.surge - total).max(0);
        new.wanted + room.min(self.replicas - new.wanted)
    }

    /// Returns the next sizes of the old ReplicaSets. Unavailable Pods are removed first.
    pub(crate) fn shrink(&self, old: &[SetSize], new: SetSize) -> Vec<i64> {
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

    /// Returns the sizes of the ReplicaSets, the oldest first, after the Deployment was scaled. A single active
    /// ReplicaSet gets all new replicas; several share the difference in proportion to their sizes, so that a rollout
    /// in progress keeps its proportions. `new` is the index of the current template's ReplicaSet.
    ///
    /// Upstream: `DeploymentController.scale`.
    pub(crate) fn rescale(
        &self,
        sets: &[ScaledSet],
        new: Option<usize>,
        rolling: bool,
    ) -> Vec<i64> {
        let mut sizes: Vec<i64> = sets.iter().map(|set| set.size.wanted).collect();
        let mut active: Vec<usize> = (0..sets.len()).filter(|at| sizes[*at] > 0).collect();
        let alone = match active.as_slice() {
            [] => new.or_else(|| sets.len().checked_sub(1)),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(alone) = alone {
            sizes[alone] = self.replicas;
            return sizes;
        }
        let saturated = new.map(|at| sets[at]).is_some_and(|set| {
            set.size.wanted == self.replicas
                && set.size.available == self.replicas
                && set.desired == Some(self.replicas)
        });
        if saturated {
            let zero = |(at, size): (usize, i64)| if Some(at) == new { size } else { 0 };
            return sizes.into_iter().enumerate().map(zero).collect();
        }
        if !rolling {
            return sizes;
        }
        let allowed = if self.replicas > 0 {
            self.replicas + self.surge
        } else {
            0
        };
        let change = allowed - sizes.iter().sum::<i64>();
        // Larger ReplicaSets come first. Of two of equal size, the newer grows first, and the older shrinks first.
        active.sort_by_key(|at| {
            let age = i64::try_from(*at).unwrap_or(i64::MAX);
            (-sizes[*at], if change > 0 { -age } else { age })
        });
        let mut given = 0;
        for at in &active {
            let left = change - given;
            let own = self.proportion(sets[*at]);
            let own = if change > 0 {
                own.min(left)
            } else {
                own.max(left)
            };
            if change != 0 && left != 0 {
                sizes[*at] += own;
                given += own;
            }
        }
        if let Some(first) = active.first() {
            sizes[*first] = (sizes[*first] + change - given).max(0);
        }
        sizes
    }

    /// Returns by how many Pods a ReplicaSet grows if all grow by the same factor; negative if it shrinks.
    fn proportion(&self, set: ScaledSet) -> i64 {
        let wanted = set.size.wanted;
        if self.replicas == 0 {
            return -wanted;
        }
        let before = set
            .max_replicas
            .filter(|max_replicas| *max_replicas > 0)
            .unwrap_or(wanted)
            .max(1);
        // Rounds to the nearest integer. Computes in `i128`: the annotation with `max_replicas` may hold any `i64`, and
        // `2 * before` would overflow an `i64`.
        let (before, total) = (i128::from(before), i128::from(self.replicas + self.surge));
        let doubled = 2 * i128::from(wanted) * total + before;
        let size = i64::try_from(doubled.div_euclid(2 * before)).unwrap_or(i64::MAX);
        size - wanted
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const fn size(wanted: i64, available: i64) -> SetSize {
        SetSize { wanted, available }
    }

    /// PLAY-4: the number of Pods stays within surge and unavailability.
    #[test]
    fn a_rollout_keeps_its_bounds_at_every_step() {
        for (replicas, surge, unavailable) in [(10, "25%", "25%"), (3, "1", "0"), (4, "0", "2")] {
            let read = |text: &str| text.parse::<i64>().map_or(json!(text), |n| json!(n));
            let deployment = json!({"spec": {"replicas": replicas, "strategy": {
                "rollingUpdate": {"maxSurge": read(surge), "maxUnavailable": read(unavailable)},
            }}});
            let terms = RolloutTerms::of(&deployment);
            let (mut old, mut new) = (size(replicas, replicas), size(0, 0));
            for _ in 0..40 {
                new.wanted = terms.grow(new, old.wanted + new.wanted);
                assert!(old.wanted + new.wanted <= replicas + terms.surge);
                old.wanted = terms.shrink(&[old], new)[0];
                old.available = old.available.min(old.wanted);
                assert!(old.available + new.available >= replicas - terms.unavailable);
                // One Pod becomes ready per step.
                new.available = (new.available + 1).min(new.wanted);
            }
            assert_eq!((old.wanted, new.wanted), (0, replicas));
        }
    }

    #[test]
    fn unavailable_pods_are_scaled_down_first() {
        let terms = RolloutTerms {
            replicas: 4,
            surge: 1,
            unavailable: 1,
        };
        assert_eq!(terms.shrink(&[size(3, 1), size(1, 1)], size(1, 1)), [1, 1]);
    }

    #[test]
    fn a_rollout_that_is_scaled_keeps_its_proportions() {
        let terms = |replicas| RolloutTerms {
            replicas,
            surge: 3,
            unavailable: 2,
        };
        let set = |wanted| ScaledSet {
            size: size(wanted, wanted.min(8)),
            desired: Some(10),
            max_replicas: Some(13),
        };
        // The example in the Kubernetes documentation: a Deployment is scaled from 10 to 15 replicas in the middle of a
        // rollout.
        let both = [set(8), set(5)];
        assert_eq!(terms(15).rescale(&both, Some(1), true), [11, 7]);
        assert_eq!(terms(5).rescale(&both, Some(1), true), [5, 3]);
        assert_eq!(terms(0).rescale(&both, Some(1), true), [0, 0]);
        assert_eq!(terms(15).rescale(&both, Some(1), false), [8, 5]);
        // A single active ReplicaSet gets all replicas at once.
        assert_eq!(terms(7).rescale(&[set(0), set(5)], Some(1), true), [0, 7]);
        assert_eq!(terms(7).rescale(&[set(4), set(0)], Some(1), true), [7, 0]);
        assert_eq!(terms(7).rescale(&[set(0), set(0)], Some(1), true), [0, 7]);
        assert!(terms(7).rescale(&[], None, true).is_empty());
        // The ReplicaSet of the current template has all replicas, so the old ones are scaled to zero.
        let done = ScaledSet {
            size: size(8, 8),
            desired: Some(8),
            max_replicas: Some(11),
        };
        assert_eq!(terms(8).rescale(&[set(3), done], Some(1), true), [0, 8]);
    }

    #[test]
    fn percentages_are_rounded_as_upstream_rounds_them() {
        let terms = RolloutTerms::of(&json!({"spec": {"replicas": 3, "strategy": {
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
        }}}));
        assert_eq!((terms.surge, terms.unavailable), (1, 0));
        let none = RolloutTerms::of(&json!({"spec": {"replicas": 3, "strategy": {
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0},
        }}}));
        assert_eq!(none.unavailable, 1);
    }
}
