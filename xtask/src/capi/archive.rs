//! Archives of objects: one member read out of one, and one written around it.

use object::{Object as _, ObjectSymbol as _, read::archive::ArchiveFile};

use crate::failure::{Context, Failure, Result};

/// The member of an archive that defines a symbol.
pub(super) fn member_with(archive: &[u8], symbol: &str) -> Result<Vec<u8>> {
    let what = || "reading the library".to_owned();
    let file = ArchiveFile::parse(archive).context(what)?;
    for member in file.members() {
        let data = member.and_then(|member| member.data(archive)).context(what)?;
        let Ok(object) = object::File::parse(data) else { continue };
        let defines = object
            .symbols()
            .any(|found| found.is_definition() && found.name().is_ok_and(|name| name == symbol));
        if defines {
            return Ok(data.to_vec());
        }
    }
    Err(Failure::new(format!("no member of the library defines {symbol}")))
}

/// The size of a member's header.
const HEADER: usize = 60;

/// An archive of one object that defines these symbols, with the index that linkers look for (System V's form).
pub(super) fn around(name: &str, object: &[u8], symbols: &[String]) -> Vec<u8> {
    let names: Vec<u8> = symbols.iter().flat_map(|name| name.bytes().chain([0])).collect();
    let index_size = 4 + 4 * symbols.len() + names.len();
    let magic = b"!<arch>\n";
    let place = magic.len() + HEADER + index_size.next_multiple_of(2);
    let mut archive = magic.to_vec();
    archive.extend(header("/", index_size));
    archive.extend((symbols.len() as u32).to_be_bytes());
    symbols.iter().for_each(|_| archive.extend((place as u32).to_be_bytes()));
    archive.extend(names);
    archive.resize(place, b'\n');
    archive.extend(header(&format!("{name}/"), object.len()));
    archive.extend(object);
    if object.len() % 2 == 1 {
        archive.push(b'\n');
    }
    archive
}

/// Name, no date, no owner, a mode, the size.
fn header(name: &str, size: usize) -> Vec<u8> {
    format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, "644").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let symbols = ["a".to_owned(), "bc".to_owned()];
        let archive = around("one.o", b"odd", &symbols);
        let file = ArchiveFile::parse(&*archive).unwrap();
        let members: Vec<_> = file.members().map(|member| member.unwrap()).collect();
        assert_eq!(members.len(), 1);
        assert_eq!(members[0].name(), b"one.o");
        assert_eq!(members[0].data(&*archive).unwrap(), b"odd");
        let indexed =
            file.symbols().unwrap().unwrap().map(|symbol| symbol.unwrap().name().to_vec());
        assert_eq!(indexed.collect::<Vec<_>>(), [b"a".to_vec(), b"bc".to_vec()]);
        assert!(member_with(&archive, "a").is_err(), "it is no object");
    }
}
