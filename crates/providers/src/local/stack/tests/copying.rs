use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
use tempfile::TempDir;

use super::super::Trouble;
use super::super::copy::copy;
use super::super::layer::copy_layer;
use super::views;

static GO: AtomicBool = AtomicBool::new(false);
const MOUNTED: &str = "STEAD_TEST_SHARES_BLOCKS";

/// One of everything that a layer may hold.
fn layer(directory: &Path) {
    let at = |name: &str| directory.join(name);
    fs::create_dir_all(at("tree/inner")).unwrap();
    fs::write(at("file"), vec![7; 300_000]).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::hard_link(at("file"), at("tree/inner/linked")).unwrap();
    fs::hard_link(at("file"), at("tree/again")).unwrap();
    symlink("/etc/passwd", at("link")).unwrap();
    fs::hard_link(at("link"), at("tree/link")).unwrap();
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    mknodat(CWD, at("tree/gone"), FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
    drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
    for (name, attribute, value) in
        [("tree", "user.overlay.opaque", "y"), ("tree/inner", "user.colour", "red"), ("file", "user.overlay.origin", "somewhere")]
    {
        setxattr(at(name), attribute, value.as_bytes(), XattrFlags::empty()).unwrap();
    }
    std::os::unix::fs::chown(at("tree/inner"), Some(1234), Some(4321)).unwrap();
    std::os::unix::fs::lchown(at("link"), Some(1234), Some(4321)).unwrap();
    rustix::fs::chmod(at("tree/inner"), Mode::from_raw_mode(0o1770)).unwrap();
    rustix::fs::chmod(at("file"), Mode::from_raw_mode(0o4755)).unwrap();
}

#[test]
fn a_file_system_that_shares_nothing_is_told_at_the_first_file() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("one/inner")).unwrap();
    fs::write(at("one/inner/file"), "content").unwrap();
    match copy(&at("one"), &at("two"), &at("links"), &GO) {
        Err(Trouble::NoSharing(path)) => assert_eq!(path.to_string(), "inner/file"),
        Ok(()) => assert_eq!(fs::read_to_string(at("two/inner/file")).unwrap(), "content"),
        Err(other) => panic!("{other}"),
    }
}

/// On a file system that can, made in a file and mounted for this test alone.
#[test]
fn a_copy_shares_its_blocks_and_keeps_everything() {
    let Some(mounted) = std::env::var_os(MOUNTED).map(PathBuf::from) else {
        return mount_and_run("local::stack::tests::copying::a_copy_shares_its_blocks_and_keeps_everything");
    };
    let at = |name: &str| mounted.join(name);
    fs::create_dir_all(at("one/workspace")).unwrap();
    fs::create_dir_all(at("one/system/usr/upper")).unwrap();
    layer(&at("one/workspace"));
    layer(&at("one/system/usr/upper"));
    fs::create_dir(at("two")).unwrap();
    copy_layer(&at("one"), &at("two"), &GO).unwrap();
    for part in ["workspace", "system/usr/upper"] {
        let (one, two) = (at("one").join(part), at("two").join(part));
        assert_eq!(views::of_tree(&two), views::of_tree(&one));
        assert_eq!(views::marks(&two), views::marks(&one));
        assert_eq!(views::marks(&two).len(), 5, "{:?}", views::marks(&two));
        let number = |name: &str| fs::symlink_metadata(two.join(name)).unwrap().ino();
        assert_eq!((number("file"), number("link")), (number("tree/inner/linked"), number("tree/link")));
        assert_ne!(number("file"), fs::metadata(one.join("file")).unwrap().ino());
    }
    assert_eq!(fs::read_dir(at("two")).unwrap().count(), 2, "nothing else is left");
    // Written to one, and the other stays as it was.
    fs::write(at("one/workspace/file"), "other").unwrap();
    assert_eq!(fs::read(at("two/workspace/file")).unwrap(), vec![7; 300_000]);
    // Much larger than what is free, if anything were copied.
    let large = fs::File::create(at("one/workspace/large")).unwrap();
    for index in 0..300 {
        std::os::unix::fs::FileExt::write_all_at(&large, &vec![index as u8; 1 << 20], index << 20).unwrap();
    }
    copy_layer(&at("one"), &at("three"), &GO).unwrap();
    assert_eq!(fs::metadata(at("three/workspace/large")).unwrap().len(), 300 << 20);
    println!("copied on {}", mounted.display());
}

fn mount_and_run(name: &str) {
    let directory = TempDir::new().unwrap();
    let (image, mounted) = (directory.path().join("image"), directory.path().join("mounted"));
    fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
    fs::create_dir(&mounted).unwrap();
    let script = r#"PATH="$PATH:/usr/sbin:/sbin"
if command -v mkfs.xfs > /dev/null; then mkfs.xfs -q -m reflink=1 "$IMAGE" || exit 77
elif command -v mkfs.btrfs > /dev/null; then mkfs.btrfs -q "$IMAGE" || exit 77
else echo "neither mkfs.xfs nor mkfs.btrfs is there"; exit 77; fi
mount -o loop "$IMAGE" "$MOUNTED" || exit 77
exec "$@""#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("IMAGE", &image)
        .env("MOUNTED", &mounted)
        .env(MOUNTED, &mounted)
        .output();
    match output {
        Ok(output) if output.status.code() != Some(77) && output.status.code() != Some(1) => {
            let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && told.contains("copied on"), "{told}");
        }
        other => println!("skipped: no file system that shares blocks can be mounted here: {other:?}"),
    }
}
