//! A process that waits for a long time keeps little memory: what it needs again comes back by itself.

use std::ffi::c_char;

// Where the program's code and constants begin and end, as every linker says.
unsafe extern "C" {
    static __executable_start: c_char;
    static etext: c_char;
}

/// As far below the caller as anything can have reached that is over by now.
const REACH: usize = 512 << 10;

/// Gives back the heap's free pages, what is left on the stack of calls that are over, and the page tables of the program's code, which the kernel fills again from the file as it runs.
/// Costs some faults afterwards: for who has had nothing to do for a while. Only for a process that has one thread and always had.
pub fn shed() {
    // SAFETY: has no arguments that matter; gives back only what nobody holds.
    unsafe { libc::malloc_trim(0) };
    let page = rustix::param::page_size();
    shed_stack(page);
    let start = (&raw const __executable_start).addr().next_multiple_of(page);
    let end = (&raw const etext).addr() / page * page;
    if start < end {
        // SAFETY: the range holds the program's read-only parts alone, which are mapped from its file and never written to, relocations
        // included; what is dropped of them is read from the file again.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(start), end - start, libc::MADV_DONTNEED) };
    }
}

#[inline(never)]
fn shed_stack(page: usize) {
    let here = 0_u8;
    // Away from what this call itself stands on.
    let below = (&raw const here).addr() / page * page - 2 * page;
    // SAFETY: the one thread stands on the stack that the kernel gave the program. What lies below it there belongs to calls that are over,
    // and the kernel keeps everything else far away, so that the stack can grow.
    unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(below - REACH), REACH, libc::MADV_DONTNEED) };
}
