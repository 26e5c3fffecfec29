//! What the disk itself can do.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file system that keeps everything in memory, where a sync costs nothing and says nothing.
const TMPFS: i64 = 0x0102_1994;

pub fn usual_place(otherwise: PathBuf) -> PathBuf {
    let temporary = std::env::temp_dir();
    match rustix::fs::statfs(&temporary) {
        Ok(found) if found.f_type != TMPFS => temporary,
        _ => otherwise,
    }
}

/// How often in a second one writer can put a record of this size on the disk for good, one sync for each. The file is as large as it
/// will get from the start: no sync has to carry its growth.
pub fn syncs_per_second(directory: &Path, record: usize, time: Duration) -> f64 {
    const SIZE: u64 = 4 << 20;
    let path = directory.join("syncs");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path).unwrap();
    file.write_all_at(&vec![0; SIZE as usize], 0).unwrap();
    file.sync_all().unwrap();
    let bytes = vec![1; record];
    let (started, mut count) = (Instant::now(), 0u64);
    while started.elapsed() < time {
        file.write_all_at(&bytes, count * record as u64 % (SIZE - record as u64)).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    let rate = count as f64 / started.elapsed().as_secs_f64();
    std::fs::remove_file(path).unwrap();
    rate
}
