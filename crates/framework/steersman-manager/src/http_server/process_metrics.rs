//! Driver: the metrics of this process, with the names of Go's Prometheus client.

use std::fs;
use std::sync::OnceLock;

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
            Some(as_f64(
                number_in("/proc/self/status", "VmRSS:")?.checked_mul(1024)?,
            ))
        },
    ),
    (
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        |stat| Some(as_f64(stat.field(23)?)),
    ),
    (
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        |stat| Some(boot_seconds()? + as_seconds(stat.field(22)?)),
    ),
    (
        "process_threads",
        "Number of OS threads in the process.",
        |stat| Some(as_f64(stat.field(20)?)),
    ),
    (
        "process_open_fds",
        "Number of open file descriptors.",
        |_| open_descriptors().map(as_f64),
    ),
    (
        "process_max_fds",
        "Maximum number of open file descriptors.",
        // A limit that is the word `unlimited` has no value.
        |_| number_in("/proc/self/limits", "Max open files").map(as_f64),
    ),
];

/// The fields of `/proc/self/stat` behind the name of the program. The name may contain blanks and parentheses.
struct Stat(String);

impl Stat {
    fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        let (_, fields) = text.rsplit_once(')')?;
        Some(Self(fields.to_owned()))
    }

    /// Returns a field by its number in proc(5), from 3.
    fn field(&self, number: usize) -> Option<u64> {
        let field = self
            .0
            .split_ascii_whitespace()
            .nth(number.checked_sub(3)?)?;
        field.parse().ok()
    }
}

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
        let Some(stat) = Stat::read() else {
            return Vec::new();
        };
        let ticks = [14, 15].map(|number| stat.field(number).unwrap_or(0));
        let seconds = as_seconds(ticks[0].saturating_add(ticks[1]));
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

/// Returns the number behind `name` at the start of a line in a file.
fn number_in(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

fn open_descriptors() -> Option<u64> {
    // Linux 6.2 and later report the number as the size of the folder.
    let size = fs::metadata("/proc/self/fd").ok()?.len();
    if size > 0 {
        return Some(size);
    }
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    // The descriptor of the listing is not counted.
    u64::try_from(listed.saturating_sub(1)).ok()
}

/// Returns the start of the system in seconds since 1970. It is read once: it moves when the clock is set, and reading it
/// is slow on a system with many processors.
fn boot_seconds() -> Option<f64> {
    static BOOT: OnceLock<f64> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Some(*boot);
    }
    let boot = number_in("/proc/stat", "btime ").map(as_f64)?;
    Some(*BOOT.get_or_init(|| boot))
}

/// Returns the seconds of a number of clock ticks.
fn as_seconds(ticks: u64) -> f64 {
    as_f64(ticks) / TICKS_PER_SECOND
}
