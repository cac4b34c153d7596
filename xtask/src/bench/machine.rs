//! The date of a measurement and a description of the machine.

use std::fs;

/// Returns the current date in UTC, for example `2026-11-22`.
pub(crate) fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Describes this machine; facts that the system does not report are left out.
pub(crate) fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    describe(cores, &cpus, &memory)
}

/// Describes a machine from its number of cores and the texts of `/proc/cpuinfo` and `/proc/meminfo`.
pub(crate) fn describe(cores: usize, cpus: &str, memory: &str) -> String {
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        let (_, value) = line.split_once(':')?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let mut words = vec![match cores {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    }];
    words.extend(value(cpus, "model name"));
    words.push(std::env::consts::ARCH.to_owned());
    let total = value(memory, "MemTotal").unwrap_or_default();
    let kilobytes = total.split(' ').next().unwrap_or_default();
    if let Ok(kilobytes) = kilobytes.parse::<f64>() {
        words.push(format!("{:.0} GB", kilobytes * 1024.0 / 1e9));
    }
    words.join(", ")
}
