//! `root: {view: image}`: a system of its own, from a directory or an archive, as root and as an ordinary user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{ENVIRONMENTS, expect, message, refused, text};
use crate::support::{Server, ServerBuilder};

const BUSYBOX: &str = "/bin/busybox";

/// A little system around one program, owned by whoever is to use it.
fn system(directory: &Path, owner: u32) -> PathBuf {
    let system = directory.join("system");
    for name in ["bin", "etc", "var/tmp", "home/app", "dev", "proc", "tmp", "root"] {
        fs::create_dir_all(system.join(name)).unwrap();
    }
    fs::copy(BUSYBOX, system.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "ls", "id", "touch", "echo", "wc", "mkdir", "chown", "sleep"] {
        symlink("busybox", system.join("bin").join(name)).unwrap();
    }
    fs::write(system.join("etc/os-release"), "ID=little\n").unwrap();
    fs::write(system.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    fs::write(system.join("etc/hosts"), "1.2.3.4 theirs\n").unwrap();
    fs::write(system.join("etc/resolv.conf"), "nameserver 1.2.3.4\n").unwrap();
    fs::write(system.join("etc/closed"), "only the owner\n").unwrap();
    fs::set_permissions(system.join("etc/closed"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&system, fs::Permissions::from_mode(0o755)).unwrap();
    let status = Command::new("chown").arg("-Rh").arg(format!("{owner}:{owner}")).arg(&system).status();
    assert!(status.unwrap().success());
    system
}

fn archive(system: &Path, options: &str, owner: u32) -> PathBuf {
    let path = system.with_file_name(format!("archive{options}.tar"));
    assert!(Command::new("tar").arg("-C").arg(system).arg(options).arg(&path).arg(".").status().unwrap().success());
    chown(&path, Some(owner), Some(owner)).unwrap();
    path
}

fn spec(image: &Path, digest: Option<&str>) -> Value {
    let mut root = json!({"view": "image", "image": image});
    if let Some(digest) = digest {
        root["digest"] = json!(digest);
    }
    json!({"root": root, "sandbox": {"network_access": "disabled"}})
}

fn allowing(images: &Path) -> ServerBuilder {
    Server::builder().with(&["--allow-host-path", images.to_str().unwrap()])
}

fn posture(home: &Home<'_>, field: &str) -> Option<(String, String)> {
    let said = expect(&home.http.get(&home.path("/posture")), 200);
    let found = said["fields"].as_array().unwrap().iter().find(|entry| entry["field"] == field)?.clone();
    Some((text(&found, "declared"), text(&found, "enforcement")))
}

fn check(server: &Server, images: &Path, owner: u32) {
    if !can_run(server) {
        return;
    }
    let system = system(images, owner);
    let plain = archive(&system, "-cf", owner);
    let compressed = archive(&system, "-czf", owner);
    for (name, image) in [("directory", &system), ("plain", &plain), ("compressed", &compressed)] {
        let home = Home::new(server, name, spec(image, None));
        assert_eq!(home.works("cat /etc/os-release; id -un; echo $HOME $SHELL"), "ID=little\nstead\n/home/stead /bin/sh\n");
        assert_eq!(home.works("ls /"), "bin\ndev\netc\nhome\nproc\nroot\nrun\nruntime\ntmp\nvar\nworkspace\n");
        assert_eq!(home.works("cat /etc/closed; ls /home"), "only the owner\nstead\n");
        let hosts = home.works("cat /etc/hosts /etc/resolv.conf /etc/passwd");
        assert!(hosts.contains("127.0.0.1 localhost") && !hosts.contains("1.2.3.4") && hosts.contains("root:x:0:0"), "{hosts}");
        for place in ["/tmp", "/home/stead", "/var/tmp", "/workspace", "/runtime"] {
            home.works(&format!("echo text > {place}/file && cat {place}/file"));
        }
        for place in ["/", "/etc", "/bin", "/root", "/var", "/dev"] {
            assert_ne!(home.shell(&format!("touch {place}/made"))["exit_code"], 0, "{place}");
        }
        assert_eq!(posture(&home, "root.image"), Some((image.display().to_string(), "enforced".to_owned())));
        let digest = posture(&home, "root.digest").map(|(digest, _)| digest);
        if name == "directory" {
            assert_eq!(digest, None);
        } else {
            let said = Command::new("sha256sum").arg(image).output().unwrap().stdout;
            assert_eq!(digest, Some(format!("sha256:{}", String::from_utf8_lossy(&said[..64]))));
            // From then on it is what it was, also when the archive is another one or gone.
            fs::rename(image, image.with_extension("away")).unwrap();
            expect(&home.http.post(&home.path("/sleep"), json!({})), 200);
            assert_eq!(home.works("cat /etc/os-release"), "ID=little\n");
            expect(&home.http.patch(&home.path(""), json!({"spec": {"env": {"A": "b"}}})), 200);
            assert_eq!(home.works("cat /etc/os-release; echo $A"), "ID=little\nb\n");
        }
    }
    assert_eq!(fs::read_dir(server.path().join("images")).unwrap().count(), 2);
}

#[test]
fn a_place_has_the_root_that_its_definition_names() {
    let images = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let server = allowing(images.path()).start();
    check(&server, images.path(), rustix::process::geteuid().as_raw());
}

#[test]
fn the_same_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let make = || Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    let (directory, images) = (make(), make());
    for path in [directory.path(), images.path()] {
        chown(path, Some(5001), Some(5001)).unwrap();
    }
    let wrapper = ["setpriv", "--reuid=5001", "--regid=5001", "--clear-groups", "--"];
    check(&allowing(images.path()).on(directory).through(&wrapper).start(), images.path(), 5001);
}

#[test]
fn a_system_of_its_own_is_changed_in_a_layer() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let images = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let server = allowing(images.path()).start();
    if !can_run(&server) {
        return;
    }
    let system = system(images.path(), 0);
    let archive = archive(&system, "-cf", 0);
    for (name, image) in [("directory", &system), ("archive", &archive)] {
        let mut spec = spec(image, None);
        spec["sandbox"]["package_policy"] = json!("system");
        let home = Home::new(&server, name, spec);
        assert_eq!(
            home.works("id -u; cat /etc/closed; echo own > /etc/os-release; touch /bin/made; chown 33:33 /bin/made"),
            "0\nonly the owner\n"
        );
        expect(&home.http.post(&home.path("/sleep"), json!({})), 200);
        assert!(home.works("cat /etc/os-release; ls -ln /bin/made").starts_with("own\n-rw-r--r--    1 33       33"));
        // Another one of the same image sees nothing of it.
        let other = Home::new(&server, "other", home.http.get(&home.path("")).json()["spec"].clone());
        assert_eq!(other.works("cat /etc/os-release"), "ID=little\n");
    }
    assert_eq!(fs::read_to_string(system.join("etc/os-release")).unwrap(), "ID=little\n");
}

#[test]
fn what_is_not_what_it_should_be_is_refused() {
    let images = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let server = allowing(images.path()).start();
    if !can_run(&server) {
        return;
    }
    let system = system(images.path(), rustix::process::geteuid().as_raw());
    let archive = archive(&system, "-cf", rustix::process::geteuid().as_raw());
    let http = server.http();
    let zero = format!("sha256:{}", "0".repeat(64));
    for image in [&system, &archive] {
        let reply = http.post(ENVIRONMENTS, json!({"spec": spec(image, Some(&zero))}));
        assert_eq!(refused(&reply, 400, "invalid_field")["field"], "spec.root.digest");
        let found = message(&reply).split("sha256:").nth(1).unwrap()[..64].to_owned();
        let home = Home::new(&server, "pinned", spec(image, Some(&format!("sha256:{found}"))));
        assert_eq!(home.works("cat /etc/os-release"), "ID=little\n");
        if image == &system {
            // Changed since: nothing runs in it, and both digests are named.
            expect(&home.http.post(&home.path("/sleep"), json!({})), 200);
            fs::write(system.join("etc/os-release"), "ID=other\n").unwrap();
            let reply = home.http.post(&home.path("/processes"), json!({"argv": ["true"]}));
            refused(&reply, 409, "posture_not_enforced");
            assert!(message(&reply).contains(&found) && message(&reply).matches("sha256:").count() == 2, "{}", message(&reply));
            fs::write(system.join("etc/os-release"), "ID=little\n").unwrap();
            assert_eq!(home.works("cat /etc/os-release"), "ID=little\n");
        }
    }
    // A hostile one is refused by the entry, and nothing of it stays.
    let hostile = images.path().join("hostile.tar");
    let made = Command::new("tar").args(["-C", "/", "-P", "-cf"]).arg(&hostile).arg("etc/../etc/hostname").status();
    assert!(made.unwrap().success());
    let reply = http.post(ENVIRONMENTS, json!({"spec": spec(&hostile, None)}));
    assert_eq!(refused(&reply, 400, "invalid_field")["field"], "spec.root.image");
    assert!(message(&reply).contains("etc/../etc/hostname"), "{}", message(&reply));
    for wrong in [json!("relative"), json!("/nowhere/at/all"), json!(server.path())] {
        let spec = json!({"root": {"view": "image", "image": wrong}});
        assert!([400, 403].contains(&http.post(ENVIRONMENTS, json!({"spec": spec})).status), "{wrong}");
    }
}

/// A system with so many files that unpacking it takes a moment.
fn many_files(images: &Path) -> PathBuf {
    let system = images.join("many");
    for number in 0..60 {
        let directory = system.join(format!("usr/{number}"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..250 {
            fs::write(directory.join(file.to_string()), "text").unwrap();
        }
    }
    archive(&system, "-cf", rustix::process::geteuid().as_raw())
}

#[test]
fn a_server_that_is_killed_while_it_unpacks_leaves_nothing_behind() {
    let images = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let archive = many_files(images.path());
    let mut server = allowing(images.path()).start();
    let body = json!({"name": "many", "spec": spec(&archive, None), "allow_unenforced": true});
    let kept = server.path().join("images");
    let unfinished = || {
        let names = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".unpacking-")).collect::<Vec<_>>()
    };
    let http = server.http();
    let asked = {
        let body = body.clone();
        std::thread::spawn(move || {
            http.try_send("POST", ENVIRONMENTS, &[("content-type", "application/json")], Some(body.to_string().as_bytes())).is_ok()
        })
    };
    // Killed in the middle, if it is not faster than we look.
    while unfinished().iter().all(|name| !kept.join(name).join("usr").exists()) && !asked.is_finished() {
        std::thread::yield_now();
    }
    server.kill();
    let _ = asked.join();
    let server = allowing(images.path()).on(server.directory()).start();
    assert_eq!(unfinished(), Vec::<String>::new());
    let http = server.http();
    let reply = http.post(ENVIRONMENTS, body);
    assert!([201, 409].contains(&reply.status), "{}", message(&reply));
    let whole: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(whole.len(), 1);
    assert_eq!(fs::read_dir(whole[0].join("usr")).unwrap().count(), 60);
    assert_eq!(fs::read_dir(whole[0].join("usr/59")).unwrap().count(), 250);
}

#[test]
fn what_nobody_names_any_more_is_pruned_and_what_is_in_use_is_not() {
    let images = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let server = allowing(images.path()).start();
    if !can_run(&server) {
        return;
    }
    let owner = rustix::process::geteuid().as_raw();
    let system = system(images.path(), owner);
    let archive = archive(&system, "-cf", owner);
    let kept = server.path().join("images");
    let left = || fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let prune = || {
        for image in left() {
            fs::File::open(image).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let output = server.command(&["prune", "--yes", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        left().len()
    };
    let home = Home::new(&server, "named", spec(&archive, None));
    assert_eq!(prune(), 1, "a definition names it");
    let process = expect(&home.http.post(&home.path("/processes"), json!({"argv": ["sleep", "600"]})), 201);
    expect(&home.http.patch(&home.path(""), json!({"spec": {"root": {"view": "host", "image": null, "digest": null}}})), 200);
    assert_eq!(prune(), 1, "something runs in it");
    let id = text(&process, "id");
    assert_eq!(expect(&home.http.get(&home.path(&format!("/processes/{id}"))), 200)["status"], "running");
    expect(&home.http.post(&home.path("/stop"), json!({})), 200);
    assert_eq!(prune(), 0);
    assert_ne!(home.works("cat /etc/os-release"), "ID=little\n");
}
