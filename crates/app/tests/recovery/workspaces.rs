//! What lies beside a workspace, and what may be kept of output.

use stead_app::Outcome;
use stead_domain::Code;
use stead_domain::changes::{ChangeKind, ChangeSelection, EntryType, FileChange, RelativePath};
use stead_domain::page::PageRequest;
use stead_domain::signal::Signal;

use crate::life::World;

#[test]
fn changes_come_in_pages_and_are_settled_while_nothing_runs() {
    let world = World::sqlite();
    let life = world.live();
    let place = &world.cloud.place;
    let environment = life.created("web", None).id;
    let change =
        |name: &str| FileChange { path: name.to_owned(), path_bytes: None, kind: ChangeKind::Added, r#type: EntryType::File, size: 1 };
    *place.beside.lock().unwrap() = ["a", "b", "d/e", "d/f"].map(change).to_vec();
    let entered = life.run(life.enter(None));
    let list = |below: Option<&str>, limit, cursor: Option<&str>| {
        let below = below.map(|below| RelativePath::parse("path", below.as_bytes()).unwrap());
        life.run(life.app.list_changes(&entered, environment, below, PageRequest::new(Some(limit), cursor).unwrap()))
    };
    let first = list(None, 3, None).unwrap();
    assert_eq!((first.items.len(), first.has_more), (3, true));
    let second = list(None, 3, first.next_cursor.as_deref()).unwrap();
    assert_eq!((second.items.len(), second.has_more, second.next_cursor), (1, false, None));
    assert_eq!(list(Some("d"), 50, None).unwrap().items.len(), 2);

    let keep = |paths: Option<&[&str]>| {
        let paths = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
        life.run(life.app.keep_changes(&entered, environment, ChangeSelection { paths, path_bytes: None }))
    };
    let running = life.start_process(&world, environment, &["wait"], None).unwrap();
    assert_eq!(keep(None).unwrap_err().code(), Code::Conflict);
    assert!(place.slept().is_empty());
    life.run(life.app.send_signal(&entered, environment, running.id, Signal::KILL)).unwrap();
    let Ok(Outcome::New(kept)) = keep(Some(&["d"])) else { panic!("not kept") };
    assert_eq!(kept.count, 2);
    assert_eq!(place.slept(), [environment], "asleep before its files are touched");
    assert_eq!(keep(Some(&["../x"])).unwrap_err().code(), Code::InvalidField);
    let error = life.run(life.app.drop_changes(&entered, environment, ChangeSelection::default())).unwrap_err();
    assert_eq!(error.code(), Code::ProviderNotConfigured, "this place throws nothing away");
    life.end();
}

#[test]
fn beyond_the_bound_the_oldest_output_goes_and_its_record_stays() {
    let world = World::sqlite();
    let life = world.live();
    let place = &world.cloud.place;
    let environment = life.created("web", None).id;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(life.start_process(&world, environment, &["flood", "2"], None).unwrap().id);
        life.until_row(*ids.last().unwrap(), |process| process.status.is_over());
    }
    let running = life.start_process(&world, environment, &["wait"], None).unwrap().id;
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(life.run(life.app.bound_output()).unwrap(), 1);
    assert_eq!(life.run(life.app.bound_output()).unwrap(), 0);
    assert!(!place.knows(ids[0]) && place.knows(ids[1]) && place.knows(ids[2]) && place.knows(running));
    assert!(life.row(ids[0]).unwrap().exit.is_some());
    life.end();
}
