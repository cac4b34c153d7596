//! Handle: a system outside of the cluster that an operator keeps, such as a cloud: one for each world of an exploration.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_manager::Manager;

use crate::error::BoxError;
use crate::running_operator::Declare;

/// A system outside of the cluster that an operator keeps, such as a cloud. A test replaces the system by a stand-in of
/// type `S` in this process. Give it to [`OperatorTest::declared_with`](crate::OperatorTest::declared_with).
///
/// Each world of an exploration has a stand-in of its own. Its [records](Self::records) are compared with those of the
/// undisturbed run like objects, so that a record that remains, or is missing, is found.
#[derive(derive_more::Debug)]
#[must_use = "an external system does nothing until an operator is declared with it"]
pub struct External<S> {
    #[debug(skip)]
    make: Arc<dyn Fn() -> S + Send + Sync>,
    #[debug(skip)]
    probes: Vec<Probe<S>>,
}

/// Lists the records of a stand-in as objects.
type Probe<S> = Arc<dyn Fn(&S) -> Vec<Value> + Send + Sync>;

/// An operator with the stand-in of one world.
pub(crate) struct WorldOperator {
    pub(crate) declare: Declare,
    /// Lists the records of the stand-in as objects.
    pub(crate) records: Arc<dyn Fn() -> Vec<Value> + Send + Sync>,
}

/// Makes an operator with a new stand-in.
pub(crate) type MakeOperator = Arc<dyn Fn() -> WorldOperator + Send + Sync>;

impl<S: Send + Sync + 'static> External<S> {
    /// Creates an external system without records. `make` makes a stand-in for each world, and runs in its runtime.
    pub fn new(make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(make),
            probes: Vec::new(),
        }
    }

    /// Adds records of one kind. `list` returns the name and the content of each record that the stand-in has.
    ///
    /// Reports name a record by its kind and name. In rules, such as those of
    /// [`Scenario::finally`](crate::Scenario::finally), a record is an object with this kind and `metadata.name`, and
    /// its content is the member `record`.
    pub fn records<R>(
        mut self,
        kind: impl Into<String>,
        list: impl Fn(&S) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: IntoIterator<Item = (String, Value)>,
    {
        let kind = kind.into();
        let object = move |(name, record)| {
            json!({
                "apiVersion": "external/v1",
                "kind": kind,
                "metadata": {"name": name},
                "record": record,
            })
        };
        self.probes.push(Arc::new(move |stand_in| {
            list(stand_in).into_iter().map(&object).collect()
        }));
        self
    }

    /// Returns what makes the operator that `declare` declares, each time with a new stand-in.
    pub(crate) fn operators<E: Into<BoxError>>(
        self,
        declare: impl Fn(&Manager, &S) -> Result<(), E> + Send + Sync + 'static,
    ) -> MakeOperator {
        let declare = Arc::new(declare);
        Arc::new(move || {
            let (stand_in, declare) = (Arc::new((self.make)()), Arc::clone(&declare));
            let (probed, probes) = (Arc::clone(&stand_in), self.probes.clone());
            WorldOperator {
                declare: Arc::new(move |manager| declare(manager, &stand_in).map_err(Into::into)),
                records: Arc::new(move || {
                    let records = probes.iter().flat_map(|probe| probe(&probed));
                    records.collect()
                }),
            }
        })
    }
}
