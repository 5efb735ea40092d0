//! Which files of data there are: those of the repository, which are compiled in, or others.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{LazyLock, OnceLock},
};

use include_dir::{Dir, include_dir};
use lookaside_terminal::Refused;

use super::{
    Machine, Parameters, Published, Ranges, machine, ranges, read::Text, result, rules, workloads,
};

static MACHINES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/$LOOKASIDE_MACHINES");
static PUBLISHED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/$LOOKASIDE_PUBLISHED");

/// The file with the parameters of workloads, among those of published results.
const WORKLOADS: &str = "workloads";
/// The file with the ranges of prices, among those of published results.
const RANGES: &str = "ranges";

/// A set of files of data.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Machine files.
    pub machines: Vec<Text>,
    /// Files of published results, `workloads.toml` and `ranges.toml`.
    pub published: Vec<Text>,
}

/// The files of the repository, by name.
static OWN: LazyLock<Files> = LazyLock::new(|| Files {
    machines: texts("machines", &MACHINES),
    published: texts("published", &PUBLISHED),
});

fn texts(folder: &str, files: &Dir<'_>) -> Vec<Text> {
    let mut texts: Vec<_> = files
        .files()
        .filter(|file| file.path().extension().is_some_and(|ending| ending == "toml"))
        .filter_map(|file| {
            let name = file.path().file_name()?.to_str()?;
            Some(Text::new(format!("{folder}/{name}"), file.contents_utf8()?))
        })
        .collect();
    texts.sort_by(|a, b| a.name.cmp(&b.name));
    texts
}

/// Those that are used in their place.
static OTHERS: OnceLock<Files> = OnceLock::new();

/// The `.toml` files of a folder.
fn texts_in(folder: &Path) -> Result<Vec<Text>, Refused> {
    let refuse = |why| Refused(format!("{}: {why}", folder.display()));
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            let text = fs::read_to_string(&path);
            let text = text.map_err(|why| Refused(format!("{}: {why}", path.display())))?;
            texts.push(Text::new(path.display().to_string(), &text));
        }
    }
    texts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(texts)
}

impl Files {
    /// The files of the repository, as they were when the program was built, or those that
    /// [`Self::replace_own`] has put in their place.
    #[must_use]
    pub fn own() -> &'static Self {
        OTHERS.get().unwrap_or(&OWN)
    }

    /// Uses the files of `machines/` and `published/` in this folder in place of those of the
    /// repository, from here on and for good. Called before anything else, if at all.
    ///
    /// # Errors
    ///
    /// If they cannot be read. What is wrong in them is found when they are used.
    pub fn replace_own(folder: &Path) -> Result<(), Refused> {
        let machines = texts_in(&folder.join("machines"))?;
        let published = texts_in(&folder.join("published"))?;
        let replaced = OTHERS.set(Self { machines, published });
        replaced.map_err(|_| Refused("the files of data were replaced before".to_owned()))
    }

    /// All machines.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in a file.
    pub fn machines(&self) -> Result<Vec<Machine>, Refused> {
        self.machines.iter().map(machine::read).collect()
    }

    /// All published results, in the order of the files and of the results in each.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in a file, or a result of the same name in two of them.
    pub fn published(&self) -> Result<Vec<Published>, Refused> {
        let machines: Vec<_> = self.machines.iter().map(Text::stem).collect();
        let mut all: Vec<Published> = Vec::new();
        let others = [WORKLOADS, RANGES];
        for file in self.published.iter().filter(|file| !others.contains(&file.stem())) {
            for result in result::read(file, &machines)? {
                if all.iter().any(|other| other.id == result.id) {
                    let why = format!("{}: another file has `{}` too", file.name, result.id);
                    return Err(Refused(why));
                }
                all.push(result);
            }
        }
        Ok(all)
    }

    /// The parameters of all workloads.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in the file.
    pub fn parameters(&self) -> Result<Parameters, Refused> {
        let file = self.published.iter().find(|file| file.stem() == WORKLOADS);
        file.map_or_else(|| Ok(Parameters::default()), workloads::read)
    }

    /// The ranges of prices.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in the file.
    pub fn ranges(&self) -> Result<Ranges, Refused> {
        let file = self.published.iter().find(|file| file.stem() == RANGES);
        file.map_or_else(|| Ok(Ranges::default()), ranges::read)
    }

    /// What in these files is against the rules for numbers (`machines/README.md`), a sentence each.
    #[must_use]
    pub fn breaches(&self) -> Vec<String> {
        rules::breaches(self)
    }
}

/// The names of the machines of [`Files::own`], sorted.
pub fn machines() -> impl Iterator<Item = &'static str> {
    Files::own().machines.iter().map(Text::stem)
}

/// The published results of [`Files::own`], in the order of the files and of the results in each.
///
/// # Errors
///
/// The first thing that is wrong in a file.
pub fn published() -> Result<Vec<Published>, Refused> {
    Files::own().published()
}

/// The parameters of a workload by name, each in the unit that `published/workloads.toml` has; none
/// if it does not mention the workload.
///
/// # Errors
///
/// The first thing that is wrong in the file.
pub fn parameters(workload: &str) -> Result<BTreeMap<String, f64>, Refused> {
    Ok(Files::own().parameters()?.of(workload))
}

impl Machine {
    /// A machine of [`Files::own`] by name, or that of a file by its path: that is what has a `/`
    /// in it or ends in `.toml`.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or with the first thing that is wrong in the file.
    pub fn named(name_or_path: &str) -> Result<Self, Refused> {
        if name_or_path.contains('/') || name_or_path.ends_with(".toml") {
            return Self::open(Path::new(name_or_path));
        }
        match Files::own().machines.iter().find(|file| file.stem() == name_or_path) {
            Some(file) => machine::read(file),
            None if Path::new(name_or_path).exists() => Err(Refused(format!(
                "there is no machine `{name_or_path}`; if the file is meant, its name must end in `.toml`"
            ))),
            None => Err(lookaside_terminal::names::unknown("machine", name_or_path, machines())),
        }
    }

    /// The machine of a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or with the first thing that is wrong in it.
    pub fn open(path: &Path) -> Result<Self, Refused> {
        let name = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => machine::read(&Text { name, text }),
            Err(error) => Err(Refused(format!("{name}: {error}"))),
        }
    }

    /// The machine that a text describes.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in it.
    pub fn read(file: &Text) -> Result<Self, Refused> {
        machine::read(file)
    }
}
