//! Lists: newest first, in pages, narrowed by filters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::world::{ENVIRONMENTS, at, create, expect, names, on_both_stores, text, time_from_now, walk};
use crate::support::Server;

#[test]
fn pages_are_newest_first_and_have_no_gap_while_more_are_made() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let mut before: Vec<String> = (0..30).map(|n| text(&create(&http, json!({ "name": format!("old-{n}") })), "id")).collect();
        before.reverse();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (http, done) = (&http, &done);
                scope.spawn(move || {
                    for number in 0.. {
                        if done.load(Ordering::SeqCst) {
                            break;
                        }
                        create(http, json!({ "name": format!("new-{thread}-{number}") }));
                    }
                });
            }
            for limit in [1, 4, 7] {
                let ids: Vec<String> = walk(&http, ENVIRONMENTS, limit).iter().map(|environment| text(environment, "id")).collect();
                assert!(ids.is_sorted_by(|left, right| left > right), "newest first, none twice");
                let seen: Vec<&String> = ids.iter().filter(|id| before.contains(id)).collect();
                assert_eq!(seen, before.iter().collect::<Vec<_>>(), "none is left out");
            }
            done.store(true, Ordering::SeqCst);
        });
        // The row that a page ended with may go; the next page begins where it was.
        let page = expect(&http.get(&format!("{ENVIRONMENTS}?reference=old-&limit=10")), 200);
        let (last, cursor) = (&page["items"][9], text(&page, "next_cursor"));
        expect(&http.delete(&at(last)), 200);
        let rest = expect(&http.get(&format!("{ENVIRONMENTS}?reference=old-&limit=200&cursor={cursor}")), 200);
        assert_eq!(rest["items"].as_array().unwrap().len(), 20);
        assert_eq!((&rest["has_more"], rest.get("next_cursor")), (&json!(false), None));
    });
}

#[test]
fn a_page_holds_fifty_unless_it_is_told_otherwise() {
    let server = Server::start();
    let http = server.http();
    super::world::at_once(10, |thread| {
        for number in 0..6 {
            create(&http, json!({ "name": format!("{thread}-{number}") }));
        }
    });
    for (query, expected, more) in
        [("", 50, true), ("?limit=61", 61, false), ("?limit=60", 60, true), ("?limit=200", 61, false), ("?limit=1", 1, true)]
    {
        let page = expect(&http.get(&format!("{ENVIRONMENTS}{query}")), 200);
        assert_eq!((page["items"].as_array().unwrap().len(), page["has_more"].as_bool()), (expected, Some(more)), "{query}");
    }
}

#[test]
fn every_filter_narrows() {
    on_both_stores(&["--provider-alias", "sprites=local"], |server| {
        let http = server.http();
        let make = |name: &str, more: serde_json::Value| {
            let mut body = json!({ "name": name });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            create(&http, body)
        };
        make("aliased", json!({ "provider": "sprites" }));
        make("leased", json!({ "lifetime": "lease" }));
        make("agents", json!({ "environment_mode": "agent", "bound_to_type": "agent", "bound_to_id": "agent_1" }));
        make("Review", json!({ "purpose": "review", "owned_by": "team 1" }));
        make("scoped", json!({ "scope": "owner", "owned_by": "agent_1" }));
        let older = make("older", json!({}));
        let newer = make("newer", json!({}));
        expect(&http.delete(&at(&older)), 200);
        std::thread::sleep(Duration::from_millis(5));
        let between = time_from_now(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(5));
        expect(&http.delete(&at(&newer)), 200);
        let me = text(&expect(&http.get("/v1/identity"), 200), "principal_id");
        let scoped = walk(&http, &format!("{ENVIRONMENTS}?name=scoped&scope=any"), 10);
        let prefix = text(&scoped[0], "id")[..34].to_owned();

        let everywhere = ["scoped", "Review", "agents", "leased", "aliased", "local-default"];
        let living = ["Review", "agents", "leased", "aliased", "local-default"];
        let with_newer = [&["newer"], &living[..]].concat();
        let with_all = [&["newer", "older"], &living[..]].concat();
        for (query, expected) in [
            ("".to_owned(), &living[..]),
            ("provider=sprites".to_owned(), &["aliased"]),
            ("provider=local".to_owned(), &["Review", "agents", "leased", "local-default"]),
            ("provider=docker".to_owned(), &[]),
            ("status=ready".to_owned(), &living),
            ("status=failed".to_owned(), &[]),
            ("lifetime=lease".to_owned(), &["leased"]),
            ("environment_mode=agent".to_owned(), &["agents"]),
            ("bound_to_type=agent&bound_to_id=agent_1".to_owned(), &["agents"]),
            ("bound_to_id=agent_2".to_owned(), &[]),
            ("purpose=review".to_owned(), &["Review"]),
            ("purpose=review&lifetime=lease".to_owned(), &[]),
            ("scope=owner".to_owned(), &["scoped"]),
            ("scope=owner&owned_by=agent_1".to_owned(), &["scoped"]),
            ("scope=owner&owned_by=agent_2".to_owned(), &[]),
            ("scope=any".to_owned(), &everywhere),
            ("scope=any&owned_by=agent_1".to_owned(), &["scoped"]),
            // An owner without a scope speaks of the project's own.
            ("owned_by=agent_1".to_owned(), &[]),
            ("name=scoped".to_owned(), &[]),
            ("name=SCOPED&scope=owner".to_owned(), &["scoped"]),
            ("owned_by=team%201".to_owned(), &["Review"]),
            ("owned_by=team+1".to_owned(), &["Review"]),
            (format!("owned_by={me}"), &["agents", "leased", "aliased", "local-default"]),
            ("name=REVIEW".to_owned(), &["Review"]),
            ("name=rev".to_owned(), &[]),
            ("reference=rev".to_owned(), &["Review"]),
            ("reference=%25".to_owned(), &[]),
            ("reference=_".to_owned(), &[]),
            (format!("reference={prefix}"), &[]),
            (format!("reference={prefix}&scope=any"), &["scoped"]),
            ("include_destroyed=false".to_owned(), &living),
            ("include_destroyed=true".to_owned(), &with_all),
            ("status=destroyed".to_owned(), &["newer", "older"]),
            (format!("status=destroyed&destroyed_since={between}"), &["newer"]),
            // It narrows the destroyed only, and shows none by itself.
            (format!("include_destroyed=true&destroyed_since={between}"), &with_newer),
            (format!("destroyed_since={between}"), &living),
            ("include_destroyed=true&status=ready".to_owned(), &living),
            (format!("status=destroyed&destroyed_since={}", time_from_now(Duration::from_secs(60))), &[]),
        ] {
            // Page by page, so that the filter and the cursor are also tried together.
            assert_eq!(names(&walk(&http, &format!("{ENVIRONMENTS}?{query}"), 2)), expected, "{query}");
        }
        // The same moment in another zone.
        let there = between.replace('Z', "%2B00:00");
        assert_eq!(names(&walk(&http, &format!("{ENVIRONMENTS}?status=destroyed&destroyed_since={there}"), 2)), ["newer"]);
    });
}
