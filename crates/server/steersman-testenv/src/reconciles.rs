//! Machine: the last reconciles of controllers, from their spans.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use tracing::field::{Field, Visit};

/// The number of ended reconciles that are kept individually.
const KEPT: usize = 30;
pub(crate) const SPAN: &str = "reconcile";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reconcile {
    pub(crate) controller: String,
    pub(crate) object: String,
    pub(crate) problem: Option<String>,
    /// The end of the reconcile, as time on the runtime's clock since the capture began.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
}

/// The last reconciles, newest last, and the number of reconciles per controller.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reconciles {
    last: VecDeque<Reconcile>,
    /// Per controller: the number of all reconciles, and of failed ones.
    counts: BTreeMap<String, (u64, u64)>,
}

impl Reconciles {
    pub(crate) fn add(&mut self, reconcile: Reconcile) {
        let (all, failed) = self.counts.entry(reconcile.controller.clone()).or_default();
        *all += 1;
        *failed += u64::from(reconcile.problem.is_some());
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(reconcile);
    }
}

impl fmt::Display for Reconciles {
    /// Writes one line per controller, followed by the last reconcile of each of its objects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (controller, (all, failed)) in &self.counts {
            writeln!(
                f,
                "  {controller}: {all} reconciles, {failed} of them failed"
            )?;
            let own = self.last.iter().filter(|one| one.controller == *controller);
            let mut newest: BTreeMap<&str, (&Reconcile, usize)> = BTreeMap::new();
            for one in own {
                let entry = newest.entry(&one.object).or_insert((one, 0));
                *entry = (one, entry.1 + 1);
            }
            for (object, (one, times)) in newest {
                let (at, took) = (one.at, one.took);
                write!(f, "    {object}: last ended at {at:.3?} after {took:.3?}")?;
                if times > 1 {
                    write!(f, " ({times} lately)")?;
                }
                match &one.problem {
                    Some(problem) => writeln!(f, ": {problem}")?,
                    None => writeln!(f, ", ok")?,
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(crate) struct LogFields {
    pub(crate) controller: String,
    pub(crate) object: String,
    pub(crate) message: String,
    pub(crate) error: Option<String>,
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value.to_owned());
    }
}

impl LogFields {
    fn set(&mut self, name: &str, value: String) {
        match name {
            "controller" => self.controller = value,
            // The parts come in this order.
            "cluster" | "namespace" => self.object = format!("{}{value}/", self.object),
            "name" => self.object.push_str(&value),
            "request" => self.object = value,
            "message" => self.message = value,
            "error" | "panic" => self.error = Some(value),
            _ => {}
        }
    }

    pub(crate) fn problem(self) -> String {
        match self.error {
            Some(error) => format!("{}: {error}", self.message),
            None => self.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reconcile(object: &str, problem: Option<&str>) -> Reconcile {
        Reconcile {
            controller: "website".to_owned(),
            object: object.to_owned(),
            problem: problem.map(str::to_owned),
            at: Duration::from_secs(2),
            took: Duration::from_millis(3),
        }
    }

    #[test]
    fn the_object_is_that_of_the_span() {
        let object = |fields: &[(&str, &str)]| {
            let mut read = LogFields::default();
            for (name, value) in fields {
                read.set(name, (*value).to_owned());
            }
            read.object
        };
        assert_eq!(
            object(&[("namespace", "shop"), ("name", "web")]),
            "shop/web"
        );
        let parts = [("cluster", "east"), ("namespace", "shop"), ("name", "web")];
        assert_eq!(object(&parts), "east/shop/web");
        assert_eq!(object(&[("request", "shop")]), "shop");
    }

    #[test]
    fn the_last_reconcile_of_each_object_is_shown_and_all_are_counted() {
        let mut reconciles = Reconciles::default();
        for _ in 0..40 {
            reconciles.add(reconcile("default/b", Some("reconcile failed: no")));
        }
        reconciles.add(reconcile("default/a", None));
        assert_eq!(
            reconciles.to_string(),
            "  website: 41 reconciles, 40 of them failed\n    \
             default/a: last ended at 2.000s after 3.000ms, ok\n    \
             default/b: last ended at 2.000s after 3.000ms (29 lately): reconcile failed: no\n"
        );
    }
}
