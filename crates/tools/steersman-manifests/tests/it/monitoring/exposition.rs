//! Reads the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

/// The series of one scrape, each with its value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) series: BTreeMap<Series, f64>,
    /// The metrics that only grow, among them the parts of histograms.
    pub(crate) growing: BTreeSet<String>,
}

/// A metric with the values of its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) metric: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Self {
        let mut read = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                match typed.split_once(' ').unwrap() {
                    (metric, "counter") => _ = read.growing.insert(metric.to_owned()),
                    (metric, "histogram") => {
                        let parts = ["bucket", "count", "sum"];
                        read.growing
                            .extend(parts.map(|part| format!("{metric}_{part}")));
                    }
                    _ => {}
                }
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                read.series
                    .insert(Series::parse(series), value.parse().unwrap());
            }
        }
        read
    }

    /// Returns the names of all labels of a metric; `None` without a series.
    pub(crate) fn labels(&self, metric: &str) -> Option<BTreeSet<&str>> {
        let mut series = self.series.keys().filter(|one| one.metric == metric);
        let first = series.next()?;
        let names = first
            .labels
            .keys()
            .chain(series.flat_map(|one| one.labels.keys()));
        Some(names.map(String::as_str).collect())
    }
}

impl Series {
    fn parse(text: &str) -> Self {
        let (metric, labels) = text.split_once('{').unwrap_or((text, "}"));
        let mut read = BTreeMap::new();
        let mut rest = labels.strip_suffix('}').unwrap();
        while let Some((name, after)) = rest.split_once("=\"") {
            // No value of these metrics holds a quote.
            let (value, after) = after.split_once('"').unwrap();
            read.insert(name.to_owned(), value.to_owned());
            rest = after.trim_start_matches(',');
        }
        Self {
            metric: metric.to_owned(),
            labels: read,
        }
    }
}

#[test]
fn labels_and_values_are_read() {
    let text = "# HELP a A.\n# TYPE a histogram\na_bucket{b=\"c,d\",le=\"+Inf\"} 2\na_sum 0.5\n";
    let read = Exposition::parse(text);
    assert_eq!(read.labels("a_bucket"), Some(BTreeSet::from(["b", "le"])));
    assert_eq!(read.labels("a_sum"), Some(BTreeSet::new()));
    assert_eq!(read.labels("a"), None);
    assert!(read.growing.contains("a_bucket"));
    let values: Vec<f64> = read.series.into_values().collect();
    assert_eq!(values, [2.0, 0.5]);
}
