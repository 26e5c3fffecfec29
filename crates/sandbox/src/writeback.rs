//! Telling the kernel which data will be waited for soon.

use std::os::fd::{AsFd, AsRawFd};

/// Begins to write what a file has in memory to the disk, and does not wait for it. Promises nothing: who needs it there still syncs the file,
/// and finds less to wait for. Many files that are begun first and synced then share the disk's time.
pub fn begin_writing(file: impl AsFd) {
    // SAFETY: plain system call on a descriptor that is open through it. What it says does not matter, because it only hurries.
    unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
