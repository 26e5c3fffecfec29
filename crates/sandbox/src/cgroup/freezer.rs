//! Everything inside a place stands still, and goes on: by the group that it is in, or by one that is made for it when it is needed, because
//! to be in a group from its beginning on would cost every place something that few of them need.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::io::Errno;

use super::files::{field, read};
use super::group::check;
use super::{Availability, Group, Layout};
use crate::error::{Error, Result};

/// Makes those in a group stand still. It stays when this value goes.
#[derive(Clone, Debug)]
pub struct Freezer {
    group: Group,
    /// It was made for this alone, and those who are to stand still have to be brought into it.
    gathers: bool,
}

impl Freezer {
    /// For a place that was begun in a group: everything in it is there.
    pub fn of(group: &Group) -> Result<Self> {
        let freezer = Self { group: group.clone(), gathers: false };
        match freezer.file() {
            Some(_) => Ok(freezer),
            None => Err(unavailable("this kernel has no cgroup controller `freezer`")),
        }
    }

    /// For a place that is in no group.
    pub fn create(available: &Availability, name: &str) -> Result<Self> {
        check(name)?;
        let layout = match &available.layout {
            Layout::Separate(hierarchies) => Layout::Separate(hierarchies.iter().filter(|(name, _)| *name == "freezer").cloned().collect()),
            other => other.clone(),
        };
        let group = Group { name: name.to_owned(), layout, memory_bytes: None };
        let freezer = Self { group, gathers: true };
        if freezer.file().is_none() {
            return Err(unavailable("no cgroup can be made here"));
        }
        freezer.group.make()?;
        Ok(freezer)
    }

    /// The controller, the file that says it, and the two words for it.
    fn file(&self) -> Option<(&'static str, &'static str, [&'static str; 2])> {
        match &self.group.layout {
            Layout::Unified(_) => Some(("", "cgroup.freeze", ["0", "1"])),
            Layout::Separate(_) => self.group.directory("freezer").map(|_| ("freezer", "freezer.state", ["THAWED", "FROZEN"])),
            Layout::None => None,
        }
    }

    fn say(&self, frozen: bool) -> Result<()> {
        let Some((controller, file, words)) = self.file() else { return Ok(()) };
        self.group.set(controller, file, words[usize::from(frozen)])
    }

    /// Has everybody in the group stand still, also those who come to it later. They do so one after the other; [`Freezer::is_still`] asks.
    pub fn freeze(&self) -> Result<()> {
        self.say(true)
    }

    pub fn thaw(&self) -> Result<()> {
        self.say(false)
    }

    /// Whether nobody moves: everything from this process on downwards, init as a rule, is in the group, and all of those stand still. Who is
    /// found elsewhere is brought there, and then it is not so yet. Only after [`Freezer::freeze`].
    pub fn is_still(&self, first: i32) -> Result<bool> {
        if let Layout::Separate(_) = self.group.layout {
            // Who was just about to wait when it was said before does not notice; who does stand is not disturbed.
            self.freeze()?;
        }
        // Twice: while the first look went from one to the next, somebody may have left one behind in whom it had looked already. What stands
        // still leaves nobody behind any more.
        for _ in 0..2 {
            if (self.gathers && !self.gather(first)?) || !self.all_stand()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn all_stand(&self) -> Result<bool> {
        Ok(match &self.group.layout {
            Layout::Unified(_) => field(&self.group.get("", "cgroup.events")?, "frozen") == 1,
            _ => self.group.get("freezer", "freezer.state")?.trim() == "FROZEN",
        })
    }

    /// Whether all were there already.
    fn gather(&self, first: i32) -> Result<bool> {
        let mut there = HashSet::new();
        for directory in self.group.directories() {
            there.extend(read(&directory.join("cgroup.procs"))?.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        let (mut all_there, mut ahead) = (true, vec![first]);
        while let Some(pid) = ahead.pop() {
            let Some(children) = children_of_the_living(pid) else { continue };
            ahead.extend(children);
            if !there.contains(&pid) {
                all_there = false;
                match self.group.attach(pid) {
                    // It ended meanwhile.
                    Err(Error::Outside { cause, .. }) if cause.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(all_there)
    }

    /// Ends everybody in the group, whatever they are doing: none of them goes on before it ends.
    pub fn kill(&self) -> Result<()> {
        self.group.kill()
    }

    /// Removes what was made for this. Nobody may be in it any more.
    pub fn remove(&self) -> Result<()> {
        if self.gathers { self.group.remove() } else { Ok(()) }
    }
}

fn unavailable(why: &str) -> Error {
    Error::Outside { step: "make everything inside stand still".to_owned(), cause: io::Error::new(io::ErrorKind::Unsupported, why) }
}

/// None when it is over: then it has no children any more, and only waits to be buried. Each of its threads has children of its own.
fn children_of_the_living(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    let mut lives = false;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let said = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let stat = said("stat");
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        lives |= state.is_some_and(|state| !matches!(state, 'Z' | 'X'));
        children.extend(said("children").split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    (lives || !children.is_empty()).then_some(children)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    /// The way of this host, and that of the unified hierarchy where it is mounted beside others.
    fn layouts() -> Vec<Availability> {
        let available = Availability::probe();
        let unified = Path::new("/sys/fs/cgroup/unified");
        let beside = (unified.join("cgroup.procs").exists() && rustix::process::geteuid().is_root())
            .then(|| Availability { layout: Layout::Unified(unified.to_owned()), ..available.clone() });
        let all: Vec<_> = std::iter::once(available).chain(beside).filter(Availability::has_groups).collect();
        if all.is_empty() {
            println!("not run: no groups can be made here");
        }
        all
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Programs that begin others all the time, in threads too, and leave children behind, which become those of the first.
    const RESTLESS: &str = r#"
import ctypes, os, subprocess, threading
BECOME_SUBREAPER = 36
ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)
subprocess.Popen(["sh", "-c", "while :; do (setsid sh -c 'echo x >> one; sleep 0.01' &); echo y >> two; done"])
def work(name):
    while True:
        subprocess.run(["sh", "-c", "echo z >> " + name])
for name in ["three", "four"]:
    threading.Thread(target=work, args=[name]).start()
while True:
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        pass
"#;

    #[test]
    fn nobody_moves_until_they_are_let_go() {
        for (at, available) in layouts().into_iter().enumerate() {
            let directory = tempfile::TempDir::new().unwrap();
            let mut child = Command::new("python3").args(["-c", RESTLESS]).current_dir(directory.path()).spawn().unwrap();
            let pid = i32::try_from(child.id()).unwrap();
            let files = ["one", "two", "three", "four"].map(|name| directory.path().join(name));
            let sizes = || files.clone().map(|file| fs::metadata(file).map_or(0, |file| file.len()));
            until("it begins", || sizes().iter().all(|size| *size > 0));
            let freezer = Freezer::create(&available, &format!("test-still-{at}-{}", std::process::id())).unwrap();
            for _ in 0..3 {
                freezer.freeze().unwrap();
                until("they stand", || freezer.is_still(pid).unwrap());
                let before = sizes();
                std::thread::sleep(Duration::from_millis(60));
                assert_eq!((sizes(), freezer.is_still(pid).unwrap()), (before, true));
                freezer.thaw().unwrap();
                until("they go on", || sizes().iter().zip(before).all(|(now, before)| *now > before));
            }
            freezer.freeze().unwrap();
            until("they stand", || freezer.is_still(pid).unwrap());
            let before = sizes();
            freezer.kill().unwrap();
            assert_eq!(sizes(), before, "they ended without another step");
            assert!(!child.wait().unwrap().success());
            freezer.remove().unwrap();
        }
    }

    #[test]
    fn a_group_that_a_killed_keeper_left_frozen_holds_nobody_who_comes_after() {
        for (at, available) in layouts().into_iter().enumerate() {
            let name = format!("test-left-{at}-{}", std::process::id());
            let freezer = Freezer::create(&available, &name).unwrap();
            freezer.freeze().unwrap();
            let group = Group::create(&available, &name, super::super::Limits::default()).unwrap();
            let mut child = Command::new("sleep").arg("0.1").spawn().unwrap();
            group.attach(i32::try_from(child.id()).unwrap()).unwrap();
            assert!(child.wait().unwrap().success());
            group.remove().unwrap();
            freezer.remove().unwrap();
        }
    }
}
