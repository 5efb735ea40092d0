//! The processes that a recording follows: those of given numbers with their descendants, or those of a control
//! group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use lookaside_terminal::Refused;

use super::{What, tasks};

/// The processes that a recording follows. Those that they create are not listed: the trace shows their creation.
#[derive(Debug)]
pub(super) struct Followed {
    source: Source,
    /// All processes that were found, living or not.
    members: BTreeSet<u32>,
}

#[derive(Debug)]
enum Source {
    /// Processes, with the time at which each was started: numbers are used again.
    Processes(Vec<(u32, u64)>),
    /// The folder of a control group.
    Group(PathBuf),
}

impl Followed {
    /// The processes that a recording follows; none if it is of a command or of the whole system.
    ///
    /// # Errors
    ///
    /// If there is no such process or control group, or it is none that can be followed.
    pub(super) fn find(what: &What) -> Result<Option<Self>, Refused> {
        let source = match what {
            What::Command(_) | What::System => return Ok(None),
            What::Processes(numbers) => {
                let one = |&number: &u32| Ok((number, program(number)?));
                Source::Processes(numbers.iter().map(one).collect::<Result<_, Refused>>()?)
            }
            What::Group(path) => Source::Group(group(path)?),
        };
        let mut followed = Self { source, members: BTreeSet::new() };
        match (followed.look(), what) {
            (true, _) => Ok(Some(followed)),
            (false, What::Group(path)) => {
                Err(Refused(format!("the control group {} has no process", path.display())))
            }
            (false, _) => Err(Refused("the process has ended".into())),
        }
    }

    /// Looks again: adds processes that have come to a group. Whether any that is followed lives.
    pub(super) fn look(&mut self) -> bool {
        match &self.source {
            Source::Processes(numbers) => {
                let lives = |&(number, time): &(u32, u64)| tasks::started(number) == Some(time);
                let living: Vec<u32> =
                    numbers.iter().filter(|one| lives(one)).map(|&(number, _)| number).collect();
                let any = !living.is_empty();
                self.members.extend(living);
                any
            }
            Source::Group(folder) => {
                let now = processes_of(folder);
                let any = !now.is_empty();
                self.members.extend(now);
                any
            }
        }
    }

    /// Adds the descendants that processes of given numbers have now. Called once recording is on, so that none is
    /// missed: those that come later are created in the trace.
    pub(super) fn add_descendants(&mut self) {
        if let Source::Processes(_) = self.source {
            descendants(&tasks::parents(), &mut self.members);
        }
    }

    /// What is followed, in words: the names of the processes, or that of the group.
    pub(super) fn names(&self) -> Vec<String> {
        match &self.source {
            Source::Processes(numbers) => {
                let name = |&(number, _): &(u32, u64)| {
                    let text = fs::read_to_string(format!("/proc/{number}/comm"));
                    text.map_or_else(|_| number.to_string(), |text| text.trim().to_owned())
                };
                let names: BTreeSet<String> = numbers.iter().map(name).collect();
                names.into_iter().collect()
            }
            Source::Group(folder) => {
                let name = folder.file_name().unwrap_or(folder.as_os_str());
                vec![name.to_string_lossy().into_owned()]
            }
        }
    }

    /// The numbers of all processes that were found.
    pub(super) fn into_members(self) -> Vec<u32> {
        self.members.into_iter().collect()
    }
}

/// When a process was started that can be followed.
fn program(number: u32) -> Result<u64, Refused> {
    let Some(started) = tasks::started(number) else {
        return Err(Refused(format!("there is no process {number}")));
    };
    let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    match field("Tgid").and_then(|process| process.parse::<u32>().ok()) {
        Some(process) if process != number => Err(Refused(format!(
            "{number} is a thread of process {process}: --pid takes the number of the process"
        ))),
        _ if field("Kthread") == Some("1") || tasks::is_kernel(number) => Err(Refused(format!(
            "process {number} is a thread of the kernel, which has no address space of its own"
        ))),
        _ => Ok(started),
    }
}

/// The folder of a control group: a path, a name below the place where the groups are mounted, or a line of
/// `/proc/PID/cgroup`.
fn group(path: &Path) -> Result<PathBuf, Refused> {
    let is_group = |folder: &Path| folder.join("cgroup.procs").exists();
    if is_group(path) {
        return Ok(path.to_owned());
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let (controllers, name) = line_of_proc(path).unwrap_or((None, path));
    let below = mount_points(&mounts, controllers)
        .map(|root| root.join(name.strip_prefix("/").unwrap_or(name)))
        .find(|folder| is_group(folder));
    below.ok_or_else(|| {
        Refused(format!(
            "there is no control group {}: name its folder, or what /proc/PID/cgroup shows of a process in it",
            path.display()
        ))
    })
}

/// The controllers and the name in a line of `/proc/PID/cgroup`, as `4:memory:/web` or `0::/web`, if it is one.
fn line_of_proc(line: &Path) -> Option<(Option<&str>, &Path)> {
    let (hierarchy, rest) = line.to_str()?.split_once(':')?;
    let (controllers, name) = rest.split_once(':')?;
    hierarchy.parse::<u32>().ok()?;
    name.starts_with('/').then_some((Some(controllers), Path::new(name)))
}

/// The places where control groups are mounted, by the text of `/proc/mounts`: the unified ones first. With controllers those
/// alone that have them; the unified ones have no name of theirs.
fn mount_points<'m>(
    mounts: &'m str,
    controllers: Option<&'m str>,
) -> impl Iterator<Item = PathBuf> + 'm {
    let of = move |kind: &'static str| {
        mounts.lines().filter_map(move |line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            let is_kind = words.next()? == kind;
            let options = words.next().unwrap_or_default();
            let has_all =
                |all: &str| all.split(',').all(|one| options.split(',').any(|o| o == one));
            let is_asked = match controllers {
                None => true,
                Some("") => kind == "cgroup2",
                Some(all) => kind == "cgroup" && has_all(all),
            };
            (is_kind && is_asked).then(|| PathBuf::from(place.replace("\\040", " ")))
        })
    };
    of("cgroup2").chain(of("cgroup"))
}

/// The processes of a control group and of the groups in it.
fn processes_of(folder: &Path) -> Vec<u32> {
    let list = match fs::read_to_string(folder.join("cgroup.procs")) {
        // A group whose members are threads lists no processes; its parent does.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            fs::read_to_string(folder.join("cgroup.threads"))
        }
        list => list,
    };
    let list = list.unwrap_or_default();
    let mut all: Vec<u32> = list.lines().filter_map(|line| line.parse().ok()).collect();
    // A process of another PID namespace is listed as 0.
    all.retain(|&process| process != 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(processes_of(&entry.path()));
        }
    }
    all
}

/// Adds to a set of processes all that descend from them. `parents` has the parent of each process.
fn descendants(parents: &BTreeMap<u32, u32>, members: &mut BTreeSet<u32>) {
    loop {
        let more = parents
            .iter()
            .filter(|(child, parent)| members.contains(*parent) && !members.contains(*child));
        let more: Vec<u32> = more.map(|(&child, _)| child).collect();
        if more.is_empty() {
            return;
        }
        members.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_descendants_are_found() {
        let parents = BTreeMap::from([(2, 1), (5, 4), (4, 2), (6, 1), (9, 6)]);
        let mut members = BTreeSet::from([2]);
        descendants(&parents, &mut members);
        assert_eq!(members.into_iter().collect::<Vec<_>>(), [2, 4, 5]);
    }

    #[test]
    fn groups_are_looked_for_in_both_hierarchies() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n\
             proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup/uni\\040fied cgroup2 rw 0 0\n";
        let places: Vec<_> = mount_points(mounts, None).collect();
        let [unified, cpu] = ["/sys/fs/cgroup/uni fied", "/sys/fs/cgroup/cpu"].map(Path::new);
        assert_eq!(places, [unified, cpu]);
        // What /proc/PID/cgroup shows of a process names the hierarchy.
        for (line, place) in
            [("0::/web", Some(unified)), ("4:cpu,cpuacct:/web", Some(cpu)), ("5:pids:/web", None)]
        {
            let (controllers, name) = line_of_proc(Path::new(line)).expect("a line");
            assert_eq!(name, Path::new("/web"), "{line}");
            let found = mount_points(mounts, controllers).next();
            assert_eq!(found.as_deref(), place, "{line}");
        }
        for other in ["web", "/web", "a:b:/web", "system.slice/a:b"] {
            assert!(line_of_proc(Path::new(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_in_a_sentence() {
        let why = |what: &What| Followed::find(what).unwrap_err().0;
        assert_eq!(
            why(&What::Processes(vec![u32::MAX])),
            format!("there is no process {}", u32::MAX)
        );
        assert!(why(&What::Processes(vec![2])).contains("thread of the kernel"));
        let group = why(&What::Group("no/such/group".into()));
        assert!(group.starts_with("there is no control group no/such/group: name its"), "{group}");
        let folder = tempfile::TempDir::new().unwrap();
        fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        assert!(why(&What::Group(folder.path().into())).ends_with("has no process"));
    }

    #[test]
    fn a_group_has_the_processes_of_the_groups_in_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let own = std::process::id();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        fs::write(folder.path().join("inner/cgroup.procs"), format!("0\n{own}\n")).unwrap();
        let mut followed =
            Followed::find(&What::Group(folder.path().into())).unwrap().expect("a group");
        fs::remove_file(folder.path().join("inner/cgroup.procs")).unwrap();
        assert!(!followed.look(), "it is empty now");
        assert_eq!(followed.into_members(), [own]);
    }

    #[test]
    fn a_process_lives_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let id = child.id();
        let mut followed = Followed::find(&What::Processes(vec![id])).unwrap().expect("a process");
        assert!(followed.look());
        assert_eq!(followed.names().len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!followed.look());
        assert_eq!(followed.into_members(), [id]);
    }
}
