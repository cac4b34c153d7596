//! Packs files into an archive in the format ustar (POSIX.1-1988), compressed with gzip.

use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::file::{PackedFile, Packing};

/// Returns an archive of regular files that belong to root.
pub(super) fn tar_gz(files: &[PackedFile], packing: &Packing) -> Result<Vec<u8>, String> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), packing.level));
    for file in files {
        header(file, packing.time)
            .and_then(|header| archive.append(&header, &file.bytes[..]))
            .map_err(|error| format!("{} could not be packed: {error}", file.name))?;
    }
    archive
        .into_inner()
        .and_then(GzEncoder::finish)
        .map_err(|error| format!("an archive could not be compressed: {error}"))
}

/// Returns the header of a file. `Builder::append_data` would write a long path as a second entry, which is not ustar.
fn header(file: &PackedFile, time: i64) -> std::io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(&file.name)?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(file.mode);
    header.set_size(file.bytes.len() as u64);
    header.set_mtime(time.try_into().unwrap_or_default());
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    // Regular files have no device, for which GNU tar writes zeros.
    header.set_device_major(0)?;
    header.set_device_minor(0)?;
    header.set_cksum();
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::{PackedFile, Packing, header, tar_gz};

    const PACKING: Packing = Packing {
        time: 1_700_000_000,
        level: flate2::Compression::fast(),
    };

    #[test]
    fn a_header_is_the_one_that_gnu_tar_writes() {
        let file = PackedFile::program("controller-tools/envtest/etcd", vec![1; 600]);
        let header = header(&file, PACKING.time).unwrap();
        let header = header.as_bytes();
        assert_eq!(&header[..30], b"controller-tools/envtest/etcd\0");
        assert_eq!(&header[100..124], b"0000755\x000000000\x000000000\0");
        assert_eq!(&header[124..148], b"00000001130\x0014524770400\0");
        assert_eq!(&header[156..157], b"0");
        assert_eq!(&header[257..270], b"ustar\x0000root\0");
        assert_eq!(&header[329..345], b"0000000\x000000000\0");
    }

    #[test]
    fn an_archive_has_the_files_in_their_order() {
        let files = ["b", "a"].map(|name| PackedFile::data(name, name));
        let packed = tar_gz(&files, &PACKING).unwrap();
        assert_eq!(packed, tar_gz(&files, &PACKING).unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&packed[..]));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let (path, mode) = (entry.path().unwrap().into_owned(), entry.header().mode());
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push((path.display().to_string(), text, mode.unwrap()));
        }
        let expected = ["b", "a"].map(|name| (name.to_owned(), name.to_owned(), 0o644));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let file = PackedFile::data(&"a".repeat(101), "");
        let error = tar_gz(&[file], &PACKING).unwrap_err();
        assert!(error.contains("could not be packed"), "{error}");
    }
}
