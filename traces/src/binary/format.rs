//! What the kernel says about the layout of its events: the files `format` of tracefs.
//!
//! A field is found by its name, never by a place that was once right: kernels move, widen and add
//! fields as they please.

use core::ops::Range;

/// The layout of one kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// What the events of this kind bear as `common_type`.
    pub(crate) id: u16,
    /// The fields, by place.
    pub(crate) fields: Vec<(String, Field)>,
}

/// Where a field is, and how it is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
    signed: bool,
    /// The field holds offset and length of data that stands elsewhere in the event.
    elsewhere: bool,
}

impl Format {
    /// Reads a file `format`; none if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(field).collect();
        Some(Self { id, fields })
    }

    /// The field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|&(_, field)| field)
    }
}

/// Reads a line such as `field:char next_comm[16]; offset:40; size:16; signed:0;`.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let mut field = Field { offset: 0, size: 0, signed: false, elsewhere: false };
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once(':')?;
        match key {
            "offset" => field.offset = value.parse().ok()?,
            "size" => field.size = value.parse().ok()?,
            "signed" => field.signed = value == "1",
            _ => {}
        }
    }
    field.elsewhere = declaration.starts_with("__data_loc ");
    let name = declaration.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?;
    Some((name.to_owned(), field))
}

impl Field {
    /// Where it begins.
    pub(crate) fn place(self) -> usize {
        self.offset
    }

    /// How many bytes it has.
    pub(crate) fn size(self) -> usize {
        self.size
    }

    /// Its value, in two's complement where it is signed; none if the event is too short, or the field
    /// no number.
    pub(crate) fn number(self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.offset..self.offset.checked_add(self.size)?)?;
        let mut wide = [0; 8];
        wide.get_mut(..self.size)?.copy_from_slice(bytes);
        let unused = 64 - u32::try_from(self.size * 8).ok().filter(|&bits| bits > 0)?;
        let value = u64::from_le_bytes(wide) << unused;
        Some(if self.signed {
            (value.cast_signed() >> unused).cast_unsigned()
        } else {
            value >> unused
        })
    }

    /// Its value as the number of a thread or CPU.
    pub(crate) fn small<N: TryFrom<u64>>(self, event: &[u8]) -> Option<N> {
        N::try_from(self.number(event)?).ok()
    }

    /// Its bytes.
    pub(crate) fn bytes(self, event: &[u8]) -> Option<&[u8]> {
        let range = if self.elsewhere {
            let place = self.number(event)?;
            let start = usize::try_from(place & 0xffff).ok()?;
            range(start, usize::try_from(place >> 16 & 0xffff).ok()?)?
        } else {
            range(self.offset, self.size)?
        };
        event.get(range)
    }

    /// Its text, up to the first zero.
    pub(crate) fn text(self, event: &[u8]) -> Option<&[u8]> {
        self.bytes(event)?.split(|&byte| byte == 0).next()
    }
}

fn range(start: usize, length: usize) -> Option<Range<usize>> {
    Some(start..start.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
name: sched_switch
ID: 372
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char next_comm[16];	offset:8;	size:4;	signed:0;
	field:struct mm_struct * mm;	offset:12;	size:8;	signed:0;
	field:__data_loc cpumask_t cpumask;	offset:20;	size:4;	signed:0;

print fmt: \"field:%s\", REC->next_comm
";

    #[test]
    fn fields_are_found_by_name() {
        let format = Format::parse(TEXT).expect("a format");
        assert_eq!(format.id, 372);
        let names: Vec<_> = format.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["common_type", "common_pid", "next_comm", "mm", "cpumask"]);
        let mut event = vec![0x74, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, b'c', b'c', 0, b'x'];
        event.extend(0x1122_u64.to_le_bytes());
        event.extend((2_u32 << 16 | 24).to_le_bytes());
        event.extend([5, 6]);
        let number = |name: &str| format.field(name).and_then(|field| field.number(&event));
        assert_eq!(number("common_type"), Some(372));
        assert_eq!(number("common_pid"), Some(u64::MAX));
        assert_eq!(number("mm"), Some(0x1122));
        let field = |name: &str| format.field(name).expect("a field");
        assert_eq!(field("next_comm").text(&event), Some(&b"cc"[..]));
        assert_eq!(field("cpumask").bytes(&event), Some(&[5, 6][..]));
    }

    #[test]
    fn an_event_that_is_too_short_has_no_fields() {
        let format = Format::parse(TEXT).expect("a format");
        let event = [0; 22];
        assert_eq!(format.field("mm").expect("a field").number(&event), Some(0));
        assert_eq!(format.field("cpumask").expect("a field").bytes(&event), None);
        // The data is said to be where the event has ended.
        let mut event = [0; 24];
        event[20..].copy_from_slice(&(9_u32 << 16 | 20).to_le_bytes());
        assert_eq!(format.field("cpumask").expect("a field").bytes(&event), None);
    }

    #[test]
    fn a_text_without_an_id_is_no_format() {
        assert_eq!(Format::parse("format:\n\tfield:int x;\toffset:0;\tsize:4;\tsigned:1;\n"), None);
        // A size that no number has.
        let odd = "ID: 1\n\tfield:char x[20];\toffset:0;\tsize:20;\tsigned:0;\n";
        let field = Format::parse(odd).and_then(|format| format.field("x")).expect("a field");
        assert_eq!(field.number(&[0; 32]), None);
        assert_eq!(field.bytes(&[0; 32]).map(<[u8]>::len), Some(20));
    }
}
