//! A process that waits for a long time keeps little memory: what it needs again comes back by itself.

use std::ffi::c_char;

// Where the program's code and constants begin and end, as every linker says.
unsafe extern "C" {
    static __executable_start: c_char;
    static etext: c_char;
}

/// Gives back the heap's free pages, and the page tables of the program's code, which the kernel fills again from the file as it runs.
/// Costs some faults afterwards: for who has had nothing to do for a while.
pub fn shed() {
    // SAFETY: has no arguments that matter; gives back only what nobody holds.
    unsafe { libc::malloc_trim(0) };
    let page = rustix::param::page_size();
    let start = (&raw const __executable_start).addr().next_multiple_of(page);
    let end = (&raw const etext).addr() / page * page;
    if start < end {
        // SAFETY: the range holds the program's read-only parts alone, which are mapped from its file and never written to, relocations
        // included; what is dropped of them is read from the file again.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(start), end - start, libc::MADV_DONTNEED) };
    }
}
