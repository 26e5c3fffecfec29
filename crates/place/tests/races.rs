//! Directories and links that change places while files are reached.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

use std::fs;

use stead_domain::files::{FileOrder, FileProblem};
use stead_domain::ids::EnvironmentId;
use tar::{EntryType, Header};

mod house;

use house::House;
use house::said::{errand, path};

fn rounds() -> usize {
    if std::env::var_os("STEAD_PROVE").is_some() { 25_000 } else { 40 }
}

fn archive() -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in ["d/swap/one", "d/swap/two"] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(1);
        header.set_size(1);
        header.set_path(name).unwrap();
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.push(b'x');
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Somebody inside swaps a directory and a link to something precious as fast as they can. What is removed and unpacked meanwhile never
/// goes through the link, and nothing of the host is reached at all.
#[tokio::test]
async fn a_link_in_place_of_a_directory_leads_nowhere() {
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    fs::write(house.data.join("secret"), "of the host").unwrap();
    fs::create_dir(workspace.join("precious")).unwrap();
    for name in ["keep", "deep"] {
        fs::write(workspace.join("precious").join(name), "precious").unwrap();
    }
    let swap = "import os\nos.makedirs('t/d/real', exist_ok=True)\nos.makedirs('t/d/swap', exist_ok=True)\n\
        while True:\n  for step in (lambda: os.rename('t/d/swap', 't/d/real'), lambda: os.symlink('/workspace/precious', 't/d/swap'),\n\
        \x20   lambda: os.unlink('t/d/swap'), lambda: os.makedirs('t/d/real', exist_ok=True), lambda: os.rename('t/d/real', 't/d/swap'),\n\
        \x20   lambda: open('t/d/swap/f', 'w').close()):\n    try: step()\n    except OSError: pass\n";
    let start = house.start(&format!("exec python3 -c \"{swap}\""));
    house.stewards.start(&blueprint, &start).await.unwrap();
    let archive = archive();
    let mut done = [0; 5];
    for _ in 0..rounds() {
        let orders = [
            (FileOrder::List { path: path("t"), recursive: true, after: None, limit: 100 }, None),
            (FileOrder::Pack { path: path("t") }, None),
            (FileOrder::Unpack { path: path("t") }, Some(archive.as_slice())),
            (FileOrder::Copy { from: path("t"), to: path("copy"), overwrite: true }, None),
            (FileOrder::Remove { path: path("t/d/swap"), recursive: true }, None),
        ];
        for (number, (order, sent)) in orders.into_iter().enumerate() {
            done[number] += usize::from(errand(&house, &blueprint, order, sent).await.is_ok());
            assert_eq!(fs::read_dir(workspace.join("precious")).unwrap().count(), 2);
        }
        let _ = errand(&house, &blueprint, FileOrder::Remove { path: path("copy"), recursive: true }, None).await;
        for name in ["keep", "deep"] {
            assert_eq!(fs::read_to_string(workspace.join("precious").join(name)).unwrap(), "precious");
        }
    }
    assert_eq!(fs::read_to_string(house.data.join("secret")).unwrap(), "of the host");
    assert!(done.iter().take(3).all(|done| *done > 0), "each of them got through at least once: {done:?}");
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

/// Deeper than any path may be long, with a link to the root at its end.
#[tokio::test]
async fn a_tree_without_end_is_removed_and_nothing_else() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, symlinkat};
    let house = House::new();
    let blueprint = house.blueprint(EnvironmentId::new(&house.context));
    let workspace = house.data.join("workspace");
    let levels = if std::env::var_os("STEAD_PROVE").is_some() { 10_000 } else { 1_500 };
    let name = "deep";
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    let mut at = openat(CWD, &workspace, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&at, name, Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, name, flags, Mode::empty()).unwrap();
    }
    symlinkat("/", &at, "root").unwrap();
    symlinkat("/workspace", &at, "up").unwrap();
    drop(at);
    fs::write(workspace.join("beside"), "stays").unwrap();
    // Whatever cannot be reached by one path fails by name, and never by a crash.
    let listed = FileOrder::List { path: path("."), recursive: true, after: None, limit: 10_000 };
    assert!(matches!(errand(&house, &blueprint, listed, None).await, Err(FileProblem::TooLong)));
    let archive = errand(&house, &blueprint, FileOrder::Pack { path: path(name) }, None).await.unwrap().bytes;
    errand(&house, &blueprint, FileOrder::Remove { path: path(name), recursive: true }, None).await.unwrap();
    assert_eq!(fs::read_dir(&workspace).unwrap().count(), 1);
    // And it comes back out of its archive.
    errand(&house, &blueprint, FileOrder::Unpack { path: path(name) }, Some(&archive)).await.unwrap();
    errand(&house, &blueprint, FileOrder::Remove { path: path(name), recursive: true }, None).await.unwrap();
    assert_eq!(fs::read_to_string(workspace.join("beside")).unwrap(), "stays");
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}
