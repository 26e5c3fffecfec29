//! Who there is in a system that does not know the place's own user: its list, and that user.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};

use crate::error::{Result, Step};
use crate::identity::INSIDE;
use crate::mounts::Tree;
use crate::skeleton::USER;
use crate::targets;

/// No list of users is longer.
const LONGEST: u64 = 1 << 20;

/// Shows the lists with the place's own user in them, where they lack one. A list that is missing is made only where that is ours.
pub fn attach(memory: BorrowedFd<'_>, base: BorrowedFd<'_>, own: &[u64]) -> Result<()> {
    for (name, line) in
        [("passwd", format!("{USER}:x:{INSIDE}:{INSIDE}::/home/{USER}:/bin/sh\n")), ("group", format!("{USER}:x:{INSIDE}:\n"))]
    {
        let path = format!("etc/{name}");
        let Ok(target) = targets::make(base, &path, false, |device| own.contains(&device)) else { continue };
        let Some(list) = read(base, &path).and_then(|list| with(list, &line)) else { continue };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = openat(memory, name, flags, Mode::from_raw_mode(0o444)).step(format!("make /{path}"))?;
        std::fs::File::from(made).write_all(&list).step(format!("write /{path}"))?;
        let tree = Tree::clone_below(memory, name)?;
        tree.harden_data()?;
        tree.attach_on(target.as_fd())?;
    }
    Ok(())
}

/// None for what is no file to be read, or too long for a list.
fn read(base: BorrowedFd<'_>, path: &str) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat2(base, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH).ok()?;
    let mut list = Vec::new();
    std::fs::File::from(file).take(LONGEST).read_to_end(&mut list).ok()?;
    (list.len() < LONGEST as usize).then_some(list)
}

/// The list with the line; none when it has the id already.
fn with(mut list: Vec<u8>, line: &str) -> Option<Vec<u8>> {
    let id = INSIDE.to_string();
    let is_known = list.split(|byte| *byte == b'\n').any(|line| line.split(|byte| *byte == b':').nth(2) == Some(id.as_bytes()));
    if is_known {
        return None;
    }
    if list.last().is_some_and(|last| *last != b'\n') {
        list.push(b'\n');
    }
    list.extend_from_slice(line.as_bytes());
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_user_is_added_once() {
        let line = "stead:x:1000:1000::/home/stead:/bin/sh\n";
        assert_eq!(with(Vec::new(), line).unwrap(), line.as_bytes());
        assert_eq!(with(b"root:x:0:0".to_vec(), line).unwrap(), format!("root:x:0:0\n{line}").into_bytes());
        assert_eq!(with(b"app:x:1000:1000\n".to_vec(), line), None);
    }
}
