//! Packs files into a zip file, the format of wheels.

use std::io::{Cursor, Write as _};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, DateTime};

use super::file::{PackedFile, Packing};

/// Returns a zip file with all files compressed, in the given order.
pub(super) fn zip(files: &[PackedFile], packing: &Packing) -> Result<Vec<u8>, String> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(packing.level.level().into()))
        .last_modified_time(dos_time(packing.time));
    let mut out = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        out.start_file(&*file.name, options.unix_permissions(file.mode))
            .and_then(|()| Ok(out.write_all(&file.bytes)?))
            .map_err(|error| format!("{} could not be packed: {error}", file.name))?;
    }
    out.finish()
        .map(Cursor::into_inner)
        .map_err(|error| format!("the zip file could not be finished: {error}"))
}

/// Returns date and time in UTC. The years of the format are 1980 to 2107; other times become the nearest of these.
fn dos_time(seconds: i64) -> DateTime {
    /// 1980-01-01 and 2107-12-31, in seconds since 1970.
    const RANGE: (i64, i64) = (315_532_800, 4_354_819_199);
    let clamped = seconds.clamp(RANGE.0, RANGE.1);
    let time = Timestamp::from_second(clamped).unwrap_or_default();
    let time = time.to_zoned(TimeZone::UTC).datetime();
    let year = time.year().cast_unsigned();
    let [month, day] = [time.month(), time.day()].map(i8::cast_unsigned);
    let clock = [time.hour(), time.minute(), time.second()];
    let [hour, minute, second] = clock.map(i8::cast_unsigned);
    DateTime::from_date_and_time(year, month, day, hour, minute, second).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use zip::ZipArchive;

    use super::{PackedFile, Packing, dos_time, zip};

    #[test]
    fn times_are_those_of_dos() {
        assert_eq!(dos_time(0).to_string(), "1980-01-01 00:00:00");
        let time = dos_time(1_700_000_000);
        assert_eq!(time.to_string(), "2023-11-14 22:13:20");
        assert_eq!(dos_time(i64::MAX).to_string(), "2107-12-31 23:59:58");
    }

    #[test]
    fn the_directory_lists_each_file_with_its_mode_in_the_given_order() {
        let files = [
            PackedFile::program("bin/b", vec![7; 1000]),
            PackedFile::data("a.py", "print()"),
        ];
        let packing = Packing {
            time: 1_700_000_000,
            level: flate2::Compression::best(),
        };
        let packed = zip(&files, &packing).unwrap();
        assert_eq!(packed, zip(&files, &packing).unwrap());
        let mut archive = ZipArchive::new(Cursor::new(packed)).unwrap();
        for (at, file) in files.iter().enumerate() {
            let mut entry = archive.by_index(at).unwrap();
            assert_eq!(entry.name(), file.name);
            assert_eq!(entry.unix_mode(), Some(0o100_000 | file.mode));
            assert_eq!(entry.last_modified(), Some(dos_time(packing.time)));
            assert_eq!(entry.extra_data(), Some(&[][..]));
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, file.bytes);
        }
    }
}
