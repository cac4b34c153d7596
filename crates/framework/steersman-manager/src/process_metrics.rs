//! Driver: the metrics of this process, with the names of Go's Prometheus client.

use std::fs;

use procfs_core::FromRead as _;
use procfs_core::process::{LimitValue, Limits, Stat, Status};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts, Registry};

struct ProcessCollector {
    cpu: Counter,
    gauges: [(Gauge, ReadGauge); 6],
}

/// The ticks in which `/proc` counts time: `USER_HZ` of Linux, which is 100 but for alpha and ia64, for which there is no
/// Rust. Go's package procfs also takes 100.
const TICKS_PER_SECOND: f64 = 100.0;

/// Computes the value of a gauge; `None` if the system does not report it.
type ReadGauge = fn(&Stat) -> Option<f64>;

/// The name, the help and the value of each gauge.
const GAUGES: [(&str, &str, ReadGauge); 6] = [
    (
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        |_| {
            let status = Status::from_file("/proc/self/status").ok()?;
            Some(as_f64(status.vmrss?.checked_mul(1024)?))
        },
    ),
    (
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        |stat| Some(as_f64(stat.vsize)),
    ),
    (
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        |stat| Some(boot_seconds()? + as_seconds(stat.starttime)),
    ),
    (
        "process_threads",
        "Number of OS threads in the process.",
        |stat| Some(as_f64(u64::try_from(stat.num_threads).ok()?)),
    ),
    (
        "process_open_fds",
        "Number of open file descriptors.",
        |_| {
            // The descriptor of the folder itself is not counted.
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
        |_| {
            let limits = Limits::from_file("/proc/self/limits").ok()?;
            match limits.max_open_files.soft_limit {
                LimitValue::Value(most) => Some(as_f64(most)),
                LimitValue::Unlimited => None,
            }
        },
    ),
];

/// Registers the metrics of this process, unless the registry has them already.
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
        let Ok(stat) = Stat::from_file("/proc/self/stat") else {
            return Vec::new();
        };
        let seconds = as_seconds(stat.utime.saturating_add(stat.stime));
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

/// Returns the start of the system in seconds since 1970.
fn boot_seconds() -> Option<f64> {
    let kernel = fs::read_to_string("/proc/stat").ok()?;
    let seconds = kernel
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    Some(as_f64(seconds.parse().ok()?))
}

/// Returns the seconds of a number of clock ticks.
fn as_seconds(ticks: u64) -> f64 {
    as_f64(ticks) / TICKS_PER_SECOND
}
