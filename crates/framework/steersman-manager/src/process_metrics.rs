//! Driver: the metrics of this process, under the names of Go's client.

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts, Registry};

mod stat;

use self::stat::{ProcessStat, boot_time, open_file_limit};

/// Reads `/proc` when metrics are collected. Elsewhere than on Linux there are no values.
struct ProcessCollector {
    cpu: Counter,
    gauges: [(Gauge, ReadGauge); 6],
}

/// Computes a gauge; `None` if the system does not tell.
type ReadGauge = fn(&ProcessStat) -> Option<f64>;

/// The names and meanings of the gauges.
const GAUGES: [(&str, &str, ReadGauge); 6] = [
    (
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        |stat| Some(as_f64(stat.resident_pages.checked_mul(page_size())?)),
    ),
    (
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        |stat| Some(as_f64(stat.virtual_bytes)),
    ),
    (
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        |stat| {
            let boot = boot_time(&fs::read_to_string("/proc/stat").ok()?)?;
            Some(as_f64(boot) + as_f64(stat.started_ticks) / as_f64(ticks_per_second()))
        },
    ),
    (
        "process_threads",
        "Number of OS threads in the process.",
        |stat| Some(as_f64(stat.threads)),
    ),
    (
        "process_open_fds",
        "Number of open file descriptors.",
        |_| {
            // Less the descriptor with which the directory is read.
            let open = fs::read_dir("/proc/self/fd")
                .ok()?
                .count()
                .saturating_sub(1);
            Some(as_f64(u64::try_from(open).ok()?))
        },
    ),
    (
        "process_max_fds",
        "Maximum number of open file descriptors.",
        |_| open_file_limit(&fs::read_to_string("/proc/self/limits").ok()?).map(as_f64),
    ),
];

/// Registers the metrics of this process. A registry that has them already is left as it is.
pub(crate) fn register(registry: &Registry) -> Result<(), prometheus::Error> {
    let gauge = |(name, help, read): (&str, &str, ReadGauge)| -> Result<_, prometheus::Error> {
        Ok((Gauge::with_opts(Opts::new(name, help))?, read))
    };
    let [a, b, c, d, e, f] = GAUGES.map(gauge);
    let collector = ProcessCollector {
        cpu: Counter::with_opts(Opts::new(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
        ))?,
        gauges: [a?, b?, c?, d?, e?, f?],
    };
    match registry.register(Box::new(collector)) {
        Err(prometheus::Error::AlreadyReg) => Ok(()),
        registered => registered,
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges.iter().flat_map(|(gauge, _)| gauge.desc());
        self.cpu.desc().into_iter().chain(gauges).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let text = fs::read_to_string("/proc/self/stat").ok();
        let Some(stat) = text.as_deref().and_then(ProcessStat::parse) else {
            return Vec::new();
        };
        let seconds = as_f64(stat.cpu_ticks) / as_f64(ticks_per_second());
        // Two collections at the same time must not count the same seconds twice.
        let known = self.cpu.get();
        if seconds > known {
            self.cpu.inc_by(seconds - known);
        }
        let mut families = self.cpu.collect();
        for (gauge, read) in &self.gauges {
            if let Some(value) = read(&stat) {
                gauge.set(value);
                families.extend(gauge.collect());
            }
        }
        families
    }
}

/// Returns a number for a metric; beyond 2^53 it is rounded.
#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating-point numbers"
)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(target_os = "linux")]
fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(not(target_os = "linux"))]
fn page_size() -> u64 {
    4096
}

#[cfg(target_os = "linux")]
fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(not(target_os = "linux"))]
fn ticks_per_second() -> u64 {
    100
}
