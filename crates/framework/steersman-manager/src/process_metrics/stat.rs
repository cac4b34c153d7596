//! Machine: reads the texts of `/proc` about this process.

/// What `/proc/self/stat` says, in the units of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// The CPU time in user and system mode, in clock ticks.
    pub(crate) cpu_ticks: u64,
    /// The number of threads.
    pub(crate) threads: u64,
    /// The start of the process after the boot, in clock ticks.
    pub(crate) started_ticks: u64,
    /// The virtual memory in bytes.
    pub(crate) virtual_bytes: u64,
    /// The resident memory in pages.
    pub(crate) resident_pages: u64,
}

impl ProcessStat {
    /// Reads the text of `/proc/self/stat` (proc_pid_stat(5)).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The second field is the name of the program in parentheses, which may hold spaces and parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        // The first field here is the third one of the file.
        let field = |number: usize| -> Option<u64> {
            rest.split_ascii_whitespace()
                .nth(number.checked_sub(3)?)?
                .parse()
                .ok()
        };
        Some(Self {
            cpu_ticks: field(14)?.checked_add(field(15)?)?,
            threads: field(20)?,
            started_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// Reads the soft limit of open files from the text of `/proc/self/limits`; `None` if it is unlimited.
pub(crate) fn open_file_limit(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Reads the time of the boot in seconds of the Unix epoch from the text of `/proc/stat`.
pub(crate) fn boot_time(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_kernel_are_read() {
        let text = "4711 (a) b) (c) S 1 4711 4711 0 -1 4194560 2000 0 0 0 150 50 0 0 20 0 9 0 123456 1073741824 \
                    2560 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 3 0 0 0 0 0\n";
        let stat = ProcessStat::parse(text).unwrap();
        assert_eq!(
            stat,
            ProcessStat {
                cpu_ticks: 200,
                threads: 9,
                started_ticks: 123_456,
                virtual_bytes: 1 << 30,
                resident_pages: 2560,
            }
        );
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 1048576              files\n";
        assert_eq!(open_file_limit(limits), Some(1024));
        let unlimited = limits.replace("1024  ", "unlimited");
        assert_eq!(open_file_limit(&unlimited), None);
        assert_eq!(
            boot_time("cpu 1 2\nbtime 1700000000\n"),
            Some(1_700_000_000)
        );
    }

    #[test]
    fn other_texts_are_no_panic() {
        for text in [
            "",
            ")",
            "1 (a) S",
            "1 (a) S x x x x x x x x x x x x x x x x x x x x x x",
        ] {
            assert_eq!(ProcessStat::parse(text), None);
            assert_eq!(open_file_limit(text), None);
            assert_eq!(boot_time(text), None);
        }
    }
}
