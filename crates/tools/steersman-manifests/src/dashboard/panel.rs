//! Words: the rows and panels of a dashboard, before their layout.

/// A row of a dashboard with its panels.
pub(crate) struct DashboardRow {
    pub(crate) title: &'static str,
    /// Whether only a dashboard of an operator with webhooks has the row.
    pub(crate) needs_webhooks: bool,
    pub(crate) panels: &'static [DashboardPanel],
}

/// A panel of a dashboard.
pub(crate) struct DashboardPanel {
    pub(crate) title: &'static str,
    /// What the panel shows, and what to do about an unusual value.
    pub(crate) description: &'static str,
    pub(crate) drawing: Drawing,
    /// The unit of the values, as Grafana names it.
    pub(crate) unit: &'static str,
    /// The width in columns, of which a row has 24.
    pub(crate) width: u64,
    pub(crate) queries: &'static [PanelQuery],
    /// The colors of values, each from a value on. Values below the first have the color of `Drawing::base_color`.
    pub(crate) steps: &'static [(f64, &'static str)],
}

/// The form in which a panel shows its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// The last value as a number, of which 0 is good.
    Number,
    /// The last value as a number, of which 0 is bad.
    Presence,
    Lines,
    /// Lines on top of each other, if their sum has a meaning.
    Stack,
    /// The times at which each series was 1.
    Timeline,
}

/// A query with the legend of its series. `%pods` and `%controllers` in it stand for the matchers of the variables.
pub(crate) struct PanelQuery {
    pub(crate) expression: &'static str,
    pub(crate) legend: &'static str,
}

pub(crate) const fn query(expression: &'static str, legend: &'static str) -> PanelQuery {
    PanelQuery { expression, legend }
}

impl Drawing {
    /// Returns the name of the panel's plugin in Grafana.
    pub(crate) fn plugin(self) -> &'static str {
        match self {
            Self::Number | Self::Presence => "stat",
            Self::Lines | Self::Stack => "timeseries",
            Self::Timeline => "state-timeline",
        }
    }

    /// Returns the height in units of Grafana's grid.
    pub(crate) fn height(self) -> u64 {
        match self {
            Self::Number | Self::Presence => 4,
            Self::Lines | Self::Stack | Self::Timeline => 8,
        }
    }

    /// Returns the color of values below the first step.
    pub(crate) fn base_color(self) -> &'static str {
        match self {
            Self::Presence => "red",
            Self::Timeline => "blue",
            Self::Number | Self::Lines | Self::Stack => "green",
        }
    }
}
