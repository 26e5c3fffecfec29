//! Data directories on filesystems whose files share blocks.

use serde_json::json;

use super::Spot;
use super::disk::{Disk, SHARING};
use super::model::sequences;
use crate::crashes::proving;

const MEGABYTE: u64 = 1 << 20;

#[test]
fn random_sequences_are_the_same_where_blocks_are_shared() {
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, 600 * MEGABYTE)) {
        let server = disk.server();
        sequences(&server, if proving() { 60 } else { 4 }, false);
        // And while something runs that is not ended for it.
        sequences(&server, if proving() { 60 } else { 4 }, true);
        drop(server);
    }
}

#[test]
fn a_large_file_of_a_sealed_layer_is_changed_without_being_copied() {
    let megabytes: u64 = if proving() { 1024 } else { 192 };
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, 600 * MEGABYTE + 2 * megabytes * MEGABYTE)) {
        let server = disk.server();
        let spot = Spot::new(&server.http(), "large");
        spot.works(&format!("dd if=/dev/urandom of=large bs=1M count={megabytes} status=none"));
        let first = spot.checkpoint(json!({}));
        let before = disk.used();
        spot.works("printf x | dd of=large bs=1 seek=100000000 conv=notrunc status=none");
        let grown = disk.used().saturating_sub(before);
        assert!(grown < megabytes * MEGABYTE / 8, "{grown} more bytes are in use");
        let told = format!("x{}\n", megabytes * MEGABYTE);
        assert_eq!(spot.works("dd if=large bs=1 skip=100000000 count=1 status=none; stat -c %s large"), told);
        // A copy beside what runs costs as little.
        let before = disk.used();
        spot.begins("sleep 600");
        let second = spot.checkpoint(json!({"on_running": "freeze"}));
        let grown = disk.used().saturating_sub(before);
        assert!(grown < megabytes * MEGABYTE / 8, "{grown} more bytes are in use");
        let digest = |spot: &Spot| spot.works("sha256sum < large");
        let changed = digest(&spot);
        spot.restore(&first);
        assert_ne!(digest(&spot), changed);
        spot.restore(&second);
        assert_eq!(digest(&spot), changed);
        spot.delete();
        drop(server);
    }
}
