//! Tables as Apache Parquet, the small part of it that a sweep needs: one group of rows, plain values, no compression.
//!
//! The `parquet` crate would make the program a tenth larger than it may be. The layout is that of the format's
//! specification (apache/parquet-format, README.md and parquet.thrift); structures are in Thrift's compact protocol.

/// A column.
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// Its values.
    pub(crate) values: Values,
}

/// The values of a column. Those that are `None` are null.
pub(crate) enum Values {
    Texts(Vec<Option<String>>),
    Wholes(Vec<Option<u64>>),
    Numbers(Vec<Option<f64>>),
}

const MAGIC: &[u8; 4] = b"PAR1";
/// `OPTIONAL` of `FieldRepetitionType`.
const OPTIONAL: i32 = 1;
/// `PLAIN` and `RLE` of `Encoding`.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
/// Of `ConvertedType`.
const UTF8: i32 = 0;
const UINT_64: i32 = 14;

impl Values {
    fn count(&self) -> usize {
        match self {
            Self::Texts(all) => all.len(),
            Self::Wholes(all) => all.len(),
            Self::Numbers(all) => all.len(),
        }
    }

    /// `BYTE_ARRAY`, `INT64` or `DOUBLE` of `Type`.
    const fn kind(&self) -> i32 {
        match self {
            Self::Texts(_) => 6,
            Self::Wholes(_) => 2,
            Self::Numbers(_) => 5,
        }
    }

    /// A page: which values are there, then these.
    fn page(&self) -> Vec<u8> {
        let (mut there, mut data) = (Vec::new(), Vec::new());
        match self {
            Self::Texts(all) => all.iter().for_each(|one| {
                there.push(one.is_some());
                if let Some(text) = one {
                    data.extend((text.len() as u32).to_le_bytes());
                    data.extend(text.as_bytes());
                }
            }),
            Self::Wholes(all) => all.iter().for_each(|one| {
                there.push(one.is_some());
                data.extend(one.iter().flat_map(|n| n.to_le_bytes()));
            }),
            Self::Numbers(all) => all.iter().for_each(|one| {
                there.push(one.is_some());
                data.extend(one.iter().flat_map(|n| n.to_le_bytes()));
            }),
        }
        // Definition levels of one bit, as runs of the hybrid encoding, with their length before them.
        let mut levels = Vec::new();
        for run in there.chunk_by(|a, b| a == b) {
            varint(&mut levels, (run.len() as u64) << 1);
            levels.push(u8::from(run[0]));
        }
        let mut page = (levels.len() as u32).to_le_bytes().to_vec();
        page.extend(levels);
        page.extend(data);
        page
    }
}

/// A table as the bytes of a file. All columns have as many values.
pub(crate) fn file(columns: &[Column]) -> Vec<u8> {
    let rows = columns.first().map_or(0, |column| column.values.count());
    debug_assert!(columns.iter().all(|column| column.values.count() == rows), "a full table");
    let mut file = MAGIC.to_vec();
    let mut places = Vec::new();
    for column in columns {
        let page = column.values.page();
        let begin = file.len();
        let mut header = Struct::default();
        header.int(1, 0); // DATA_PAGE
        header.int(2, page.len() as i32);
        header.int(3, page.len() as i32);
        let mut data = Struct::default();
        data.int(1, rows as i32);
        data.int(2, PLAIN);
        data.int(3, RLE);
        data.int(4, RLE);
        header.inner(5, data);
        file.extend(header.end());
        file.extend(page);
        places.push([begin, file.len() - begin]);
    }
    let footer = footer(columns, &places, rows);
    file.extend(&footer);
    file.extend((footer.len() as u32).to_le_bytes());
    file.extend(MAGIC);
    file
}

/// `FileMetaData`.
fn footer(columns: &[Column], places: &[[usize; 2]], rows: usize) -> Vec<u8> {
    let mut root = Struct::default();
    root.text(4, "rows");
    root.int(5, columns.len() as i32);
    let mut schema = vec![root];
    let mut chunks = Vec::new();
    for (column, &[begin, bytes]) in columns.iter().zip(places) {
        let mut element = Struct::default();
        element.int(1, column.values.kind());
        element.int(3, OPTIONAL);
        element.text(4, &column.name);
        match column.values {
            Values::Texts(_) => element.int(6, UTF8),
            Values::Wholes(_) => element.int(6, UINT_64),
            Values::Numbers(_) => {}
        }
        schema.push(element);
        let mut data = Struct::default();
        data.int(1, column.values.kind());
        data.ints(2, &[PLAIN, RLE]);
        data.texts(3, &[&column.name]);
        data.int(4, 0); // UNCOMPRESSED
        data.long(5, rows);
        data.long(6, bytes);
        data.long(7, bytes);
        data.long(9, begin);
        let mut chunk = Struct::default();
        chunk.long(2, begin);
        chunk.inner(3, data);
        chunks.push(chunk);
    }
    let mut group = Struct::default();
    group.structs(1, chunks);
    group.long(2, places.iter().map(|place| place[1]).sum());
    group.long(3, rows);
    let mut file = Struct::default();
    file.int(1, 1);
    file.structs(2, schema);
    file.long(3, rows);
    file.structs(4, vec![group]);
    file.text(6, concat!("lookaside ", env!("CARGO_PKG_VERSION")));
    file.end()
}

/// A structure in Thrift's compact protocol, field by field in ascending order.
#[derive(Default)]
struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    /// The kinds of fields and of elements.
    const INT: u8 = 5;
    const LONG: u8 = 6;
    const TEXT: u8 = 8;
    const LIST: u8 = 9;
    const STRUCT: u8 = 12;

    fn field(&mut self, number: u8, kind: u8) {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn int(&mut self, number: u8, value: i32) {
        self.field(number, Self::INT);
        zigzag(&mut self.bytes, value.into());
    }

    fn long(&mut self, number: u8, value: usize) {
        self.field(number, Self::LONG);
        zigzag(&mut self.bytes, value as i64);
    }

    fn text(&mut self, number: u8, text: &str) {
        self.field(number, Self::TEXT);
        binary(&mut self.bytes, text);
    }

    fn inner(&mut self, number: u8, inner: Self) {
        self.field(number, Self::STRUCT);
        self.bytes.extend(inner.end());
    }

    fn list(&mut self, number: u8, kind: u8, count: usize) {
        self.field(number, Self::LIST);
        match count {
            0..15 => self.bytes.push((count as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(&mut self.bytes, count as u64);
            }
        }
    }

    fn ints(&mut self, number: u8, all: &[i32]) {
        self.list(number, Self::INT, all.len());
        all.iter().for_each(|&one| zigzag(&mut self.bytes, one.into()));
    }

    fn texts(&mut self, number: u8, all: &[&str]) {
        self.list(number, Self::TEXT, all.len());
        all.iter().for_each(|one| binary(&mut self.bytes, one));
    }

    fn structs(&mut self, number: u8, all: Vec<Self>) {
        self.list(number, Self::STRUCT, all.len());
        all.into_iter().for_each(|one| self.bytes.extend(one.end()));
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(bytes: &mut Vec<u8>, value: i64) {
    varint(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

fn binary(bytes: &mut Vec<u8>, text: &str) {
    varint(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `lab/tests/rows.parquet`, which `python/tests/test_parquet.py` reads with Arrow.
    #[test]
    fn a_table_is_written_as_arrow_reads_it() {
        let texts = |all: &[Option<&str>]| {
            Values::Texts(all.iter().map(|one| one.map(str::to_owned)).collect())
        };
        let many = (0..20).map(|i| Column {
            name: format!("c{i}"),
            values: Values::Wholes(vec![Some(i), Some((1 << 63) + i), None, Some(u64::MAX)]),
        });
        let mut columns = vec![
            Column {
                name: "text".into(),
                values: texts(&[Some("zen5"), Some(""), None, Some("µ")]),
            },
            Column {
                name: "number".into(),
                values: Values::Numbers(vec![Some(1.5), None, None, Some(-0.25)]),
            },
            Column { name: "none".into(), values: texts(&[None; 4]) },
        ];
        // More columns than a list has room for in its first byte.
        columns.extend(many);
        let written = file(&columns);
        if std::env::var_os("LOOKASIDE_WRITE").is_some() {
            std::fs::write("tests/rows.parquet", &written).unwrap();
        }
        assert_eq!(written, include_bytes!("../../tests/rows.parquet"));
    }
}
