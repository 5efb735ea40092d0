//! How far sockets are from each other that are not all linked with each other.

use core::{fmt, str::FromStr};

/// Over how many links the way from one socket to another goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hops {
    /// By socket; `None` if all are linked with each other.
    rows: Option<[[u8; Self::MOST]; Self::MOST]>,
    sockets: u8,
}

impl Hops {
    /// The most sockets whose distances differ.
    pub const MOST: usize = 8;

    /// All sockets are linked with each other.
    pub const ONE: Self = Self { rows: None, sockets: 0 };

    /// The links on the way between two sockets, which are not the same.
    #[must_use]
    #[inline]
    pub fn between(&self, a: u16, b: u16) -> u8 {
        match &self.rows {
            Some(rows) => rows[usize::from(a)][usize::from(b)],
            None => 1,
        }
    }

    /// The links on the longest way.
    #[must_use]
    pub fn most(&self) -> u8 {
        self.rows.iter().flatten().flatten().copied().max().unwrap_or(1)
    }

    /// How many sockets are told apart; `None` if all are linked with each other, however many they are.
    #[must_use]
    pub fn sockets(&self) -> Option<u32> {
        self.rows.map(|_| self.sockets.into())
    }
}

/// `0 1 1 2; 1 0 2 1; 1 2 0 1; 2 1 1 0`: a row for each socket, as `numactl --hardware` prints distances.
impl FromStr for Hops {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number =
            |word: &str| word.parse::<u8>().map_err(|_| format!("`{word}` is no number of links"));
        let row = |row: &str| row.split_whitespace().map(number).collect::<Result<Vec<_>, _>>();
        let given = text.split(';').map(row).collect::<Result<Vec<_>, _>>()?;
        let sockets = given.len();
        if !(2..=Self::MOST).contains(&sockets) {
            return Err(format!("2 to {} sockets have rows, and not {sockets}", Self::MOST));
        }
        let mut rows = [[0; Self::MOST]; Self::MOST];
        for (a, row) in given.iter().enumerate() {
            if row.len() != sockets {
                return Err(format!("row {a} has {} numbers for {sockets} sockets", row.len()));
            }
            for (b, &hops) in row.iter().enumerate() {
                let why = match hops {
                    _ if given[b].get(a) != Some(&hops) => "not what it is back",
                    0 if a != b => "0 links",
                    1.. if a == b => "not 0 links",
                    8.. => "more than 7 links",
                    _ => {
                        rows[a][b] = hops;
                        continue;
                    }
                };
                return Err(format!("from socket {a} to {b} it is {why}"));
            }
        }
        Ok(Self { rows: Some(rows), sockets: sockets as u8 })
    }
}

impl fmt::Display for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sockets = usize::from(self.sockets);
        for (a, row) in self.rows.iter().flatten().take(sockets).enumerate() {
            let row: Vec<_> = row[..sockets].iter().map(u8::to_string).collect();
            write!(f, "{}{}", if a > 0 { "; " } else { "" }, row.join(" "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_how_far_sockets_are() {
        let ring: Hops = "0 1 2 1; 1 0 1 2; 2 1 0 1; 1 2 1 0".parse().unwrap();
        assert_eq!([ring.between(0, 1), ring.between(0, 2), ring.between(3, 0)], [1, 2, 1]);
        assert_eq!((ring.most(), ring.sockets()), (2, Some(4)));
        assert_eq!(ring.to_string().parse(), Ok(ring));
        assert_eq!((Hops::ONE.between(3, 60), Hops::ONE.most(), Hops::ONE.sockets()), (1, 1, None));
        let nine = ["0"; 9].join(";");
        for (text, why) in [
            ("0 1; 1", "row 1 has 1 numbers for 2 sockets"),
            ("0 1; 2 0", "from socket 0 to 1 it is not what it is back"),
            ("0 0; 0 0", "from socket 0 to 1 it is 0 links"),
            ("1 1; 1 0", "from socket 0 to 0 it is not 0 links"),
            ("0 8; 8 0", "from socket 0 to 1 it is more than 7 links"),
            ("0 x; 1 0", "`x` is no number of links"),
            (nine.as_str(), "2 to 8 sockets have rows, and not 9"),
        ] {
            assert_eq!(text.parse::<Hops>(), Err(why.to_owned()), "{text}");
        }
    }
}
