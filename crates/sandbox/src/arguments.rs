//! What everybody may read of a process: the arguments that it was started with.

use std::io;
use std::sync::OnceLock;

/// Where they stand. The same in every copy of a process, so one that makes many copies looks once.
static WHERE: OnceLock<Option<(usize, usize)>> = OnceLock::new();

fn looked_up() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // A name may hold anything, spaces and brackets among it; the third field comes after it.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(48 - 3);
    let (start, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (0 < start && start < end).then_some((start, end))
}

/// Looks where the arguments stand, for the copies that will [`replace`] them.
pub fn locate_arguments() {
    WHERE.get_or_init(looked_up);
}

/// Has this process show one word in place of the arguments that it was started with: a copy need not tell what the original was told.
pub fn replace(word: &[u8]) -> io::Result<()> {
    let (start, end) = WHERE.get_or_init(looked_up).ok_or_else(|| io::Error::other("the kernel does not say where they stand"))?;
    let length = end - start;
    let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel put the arguments there, on the stack that it made for the program, where they are the program's own to write;
    // no reference is held to them, and whoever asks for them later finds empty ones that end as before.
    unsafe { place.write_bytes(0, length) };
    // SAFETY: as above; the last byte stays zero.
    unsafe { place.copy_from_nonoverlapping(word.as_ptr(), word.len().min(length - 1)) };
    Ok(())
}
