//! Words: the metric of the paused objects of one controller.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Opts, Registry};

use crate::status::ControllerStatus;

/// Counts the paused objects when the registry is gathered.
struct PausedCollector {
    status: ControllerStatus,
    objects: IntGauge,
}

pub(super) fn register(
    status: &ControllerStatus,
    registry: &Registry,
) -> Result<(), prometheus::Error> {
    if status.paused_count().is_none() {
        return Ok(());
    }
    let opts = Opts::new(
        "steersman_controller_paused_objects",
        "Objects that a rule of a pause keeps from the reconciler.",
    );
    let collector = PausedCollector {
        status: status.clone(),
        objects: IntGauge::with_opts(opts.const_label("controller", status.controller()))?,
    };
    registry.register(Box::new(collector))
}

impl Collector for PausedCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.objects.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let count = self.status.paused_count().unwrap_or_default();
        self.objects.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.objects.collect()
    }
}
