//! What of the host is seen inside, where, and what can be written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use common::{Case, Outcome, command, fresh, library_path, little_system, plan, run};
use stead_sandbox::{Access, Bind, Error, Event, Overlay, Place, Plan, RootView, Source, StartFailure, StartStep};

const CASES: &[(&str, Case)] = &[
    ("writes to a copy-on-write workspace stay in its layer", copy_on_write),
    ("attributes of the overlay cannot be forged", forged_attributes),
    ("protected paths are read-only and cannot be moved", protected),
    ("missing protected paths cannot be made, and nothing is left", reserved),
    ("missing protected paths of a layer leave nothing in it", reserved_in_a_layer),
    ("protected and hidden paths that are links are refused", links_fail_closed),
    ("hidden paths are empty", hidden),
    ("targets in a bind are not made unless the plan says so", targets_on_the_host),
    ("a system of its own, read-only", directory_root),
    ("a system of its own, below a layer", overlay_root),
    ("files in memory are bounded together", bounded_memory),
    ("layers can be held beyond the end", held_layers),
    ("a workspace that is exchanged for a link meanwhile stays what it was", exchanged_workspace),
    ("targets that are exchanged for links all the time lead nowhere", raced_targets),
    ("files with secrets are read and nothing else", secrets),
    ("files with secrets in a system of its own", secrets_in_a_system),
];

fn main() {
    common::main(CASES);
}

fn shell(plan: &Plan, script: &str) -> (Option<i32>, String) {
    let mut place = Place::start(plan).unwrap();
    let (exit, text) = run(&mut place, &command(&["sh", "-c", script]));
    (exit.code, text)
}

fn refusal(plan: &Plan) -> String {
    match Place::start(plan) {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

fn layers(directory: &Path, lower: Vec<PathBuf>) -> Overlay {
    let layers = fresh(directory, "layers");
    for name in ["upper", "work"] {
        fs::create_dir(layers.join(name)).unwrap();
    }
    Overlay { lower, upper: layers.join("upper"), work: layers.join("work"), volatile: false }
}

/// Everything below a directory, with what is in the files.
fn contents(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            if path.is_dir() {
                all.push(name);
                left.push(path);
            } else {
                all.push(format!("{name}={}", fs::read_to_string(path).unwrap_or_default()));
            }
        }
    }
    all.sort();
    all
}

const SECRETS: &str = "/run/stead-secrets";

fn keeping(plan: Plan) -> (Place, Plan) {
    let plan = Plan { secrets: Some(SECRETS.into()), ..plan };
    (Place::start(&plan).unwrap(), plan)
}

fn secrets(directory: &Path) -> Outcome {
    let workspace = fresh(directory, "workspace");
    let (mut place, _plan) = keeping(Plan { binds: vec![Bind::read_write(&workspace, "/workspace")], ..plan(directory) });
    let said = |place: &mut Place, script: &str| run(place, &command(&["sh", "-c", script])).1;
    assert_eq!(said(&mut place, "cd /run/stead-secrets && ls -A; stat -f -c %T .; stat -c '%a %u' ."), "tmpfs\n700 1000\n");
    place.keep_secrets(&[("TOKEN", b"first\0\xff"), ("OTHER", b"other")]).unwrap();
    let look = "cd /run/stead-secrets; ls -A; stat -c '%a %u' TOKEN; od -An -tx1 TOKEN; cat OTHER";
    assert_eq!(said(&mut place, look), "OTHER\nTOKEN\n400 1000\n 66 69 72 73 74 00 ff\nother");
    // Nobody gets in the way of it or puts something else there, by whatever name.
    let attack = "cd /run; for try in 'rm -f stead-secrets/TOKEN' 'echo x > stead-secrets/TOKEN' 'echo x > stead-secrets/NEW' 'chmod 600 stead-secrets/TOKEN' \
        'ln -sf /workspace/planted stead-secrets/NEXT' 'mv stead-secrets elsewhere' 'rmdir stead-secrets' 'ln stead-secrets/TOKEN /run/link' \
        'touch stead-secrets/.unfinished' 'umount /run/stead-secrets' 'mount -o remount,rw /run/stead-secrets' 'ls /proc/1/fd' 'chmod 777 stead-secrets' \
        'cp x /proc/1/root/run/stead-secrets/TOKEN'; do sh -c \"$try\" 2>/dev/null && echo \"done: $try\"; done; echo over";
    assert_eq!(said(&mut place, attack), "over\n");
    // Whoever has it open keeps what it has; the next one finds the new one, and what is gone is gone.
    place.keep_secrets(&[("TOKEN", b"second")]).unwrap();
    assert_eq!(said(&mut place, "cd /run/stead-secrets; ls -A; cat TOKEN"), "TOKEN\nsecond");
    // What cannot be kept keeps everything from starting, until it can be.
    place.keep_secrets(&[("TOKEN", &[7; 5 << 20])]).unwrap();
    common::request(&mut place, 9, &command(&["true"]));
    assert!(matches!(common::next(&mut place), Event::NotStarted { failure: StartFailure { step: StartStep::Secrets, .. }, .. }));
    place.keep_secrets(&[("../TOKEN", b"x")]).unwrap();
    common::request(&mut place, 9, &command(&["true"]));
    assert!(matches!(common::next(&mut place), Event::NotStarted { .. }));
    place.keep_secrets(&[]).unwrap();
    assert_eq!(said(&mut place, "ls -A /run/stead-secrets; echo over"), "over\n");
    // Files of anybody's own that fill the memory are not in their way.
    let (mut place, _plan) = keeping(Plan { tmp_size: Some(1 << 20), ..plan(directory) });
    said(&mut place, "head -c 8000000 /dev/zero > /tmp/full");
    place.keep_secrets(&[("TOKEN", &[b'x'; 100_000])]).unwrap();
    assert_eq!(said(&mut place, "wc -c < /run/stead-secrets/TOKEN"), "100000\n");
    assert_eq!(contents(&workspace), Vec::<String>::new());
    Ok(())
}

fn secrets_in_a_system(directory: &Path) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err("only root makes a system of its own".to_owned());
    }
    let system = fresh(directory, "system-of-its-own");
    let root = RootView::HostCopy { layers: system.clone(), below: Vec::new(), volatile: true };
    let (mut place, _plan) = keeping(Plan { system: true, root, ..plan(directory) });
    place.keep_secrets(&[("TOKEN", b"first")]).unwrap();
    // Its root passes modes over, but not what a mount says.
    let script = "cat /run/stead-secrets/TOKEN; stat -c ' %a %u' /run/stead-secrets/TOKEN; cd /run; echo x > stead-secrets/TOKEN || rm -f stead-secrets/TOKEN || mv stead-secrets x || chmod 777 stead-secrets/TOKEN || echo kept";
    let text = run(&mut place, &command(&["sh", "-c", &format!("({script}) 2>/dev/null")])).1;
    assert_eq!(text, "first 400 0\nkept\n");
    drop(place);
    assert!(contents(&system).iter().all(|entry| !entry.contains("first")));
    // The same in one that is a layer over a directory.
    let overlay = layers(directory, vec![little_system(directory)]);
    let upper = overlay.upper.clone();
    let (mut place, _plan) = keeping(Plan { system: true, root: RootView::Overlay(overlay), ..plan(directory) });
    place.keep_secrets(&[("TOKEN", b"first")]).unwrap();
    let text = run(&mut place, &library_path(command(&["sh", "-c", "cat /run/stead-secrets/TOKEN"]))).1;
    assert_eq!(text, "first");
    drop(place);
    assert!(contents(&upper).iter().all(|entry| !entry.contains("first")));
    Ok(())
}

fn copy_on_write(directory: &Path) -> Outcome {
    for volatile in [false, true] {
        let (top, bottom) = (fresh(directory, "top"), fresh(directory, "bottom"));
        fs::write(bottom.join("file"), "below").unwrap();
        fs::write(bottom.join("covered"), "below").unwrap();
        fs::write(top.join("covered"), "above").unwrap();
        fs::create_dir(bottom.join("directory")).unwrap();
        fs::write(bottom.join("directory/removed"), "").unwrap();
        let overlay = Overlay { volatile, ..layers(directory, vec![top.clone(), bottom.clone()]) };
        let upper = overlay.upper.clone();
        let plan = Plan { binds: vec![Bind::overlay(overlay, "/workspace")], ..plan(directory) };
        let before = (contents(&top), contents(&bottom));
        let script = "cd /workspace && cat covered file && echo new > file && echo made > made && rm directory/removed && mv directory renamed \
                      && mkdir -p a/b && chmod 700 covered && stat -c %u made a file && cat file";
        let (code, text) = shell(&plan, script);
        assert_eq!((code, text.as_str()), (Some(0), "abovebelow1000\n1000\n1000\nnew\n"), "volatile: {volatile}");
        assert_eq!((contents(&top), contents(&bottom)), before);
        assert_eq!(fs::read_to_string(upper.join("file")).unwrap(), "new\n");
        // On the host it belongs to whom the layer belongs to.
        assert_eq!(fs::metadata(upper.join("made")).unwrap().uid(), fs::metadata(&upper).unwrap().uid());
    }
    let elsewhere = fresh(directory, "elsewhere");
    let overlay = Overlay { work: elsewhere, ..layers(directory, vec![directory.to_owned()]) };
    assert!(refusal(&Plan { binds: vec![Bind::overlay(overlay, "/workspace")], ..plan(directory) }).contains("beside"));
    Ok(())
}

fn forged_attributes(directory: &Path) -> Outcome {
    let bottom = fresh(directory, "bottom");
    fs::create_dir(bottom.join("directory")).unwrap();
    fs::write(bottom.join("directory/file"), "seen").unwrap();
    let plan = Plan { binds: vec![Bind::overlay(layers(directory, vec![bottom]), "/workspace")], ..plan(directory) };
    let script = "cd /workspace; mkdir other; touch other/x directory/y
for name in redirect opaque metacopy origin; do
  for path in other directory; do python3 -c \"import os,sys; os.setxattr('$path', 'user.overlay.$name', b'/directory' if '$name' == 'redirect' else b'y')\" 2>/dev/null; done
done
python3 -c \"import os; os.mknod('whiteout', 0o020000, 0)\" 2>/dev/null
ls other directory; test -c whiteout && echo a device";
    let (_, first) = shell(&plan, script);
    assert_eq!(first, "directory:\nfile\ny\n\nother:\nx\n", "at once");
    // And none of it works at the next mount either.
    let (_, again) = shell(&plan, "cd /workspace; ls other directory");
    assert_eq!(again, first, "later");
    Ok(())
}

fn protected(directory: &Path) -> Outcome {
    let workspace = fresh(directory, "protected");
    fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    fs::write(workspace.join(".git/config"), "kept").unwrap();
    fs::write(workspace.join(".git/hooks/pre-commit"), "kept").unwrap();
    for layered in [false, true] {
        let bind = if layered {
            Bind::overlay(layers(directory, vec![workspace.clone()]), "/workspace")
        } else {
            Bind::read_write(&workspace, "/workspace")
        };
        let plan =
            Plan { binds: vec![bind], protected: vec!["/workspace/.git/hooks".into(), "/workspace/.git/config".into()], ..plan(directory) };
        let mut place = Place::start(&plan).unwrap();
        for attempt in [
            "echo x > .git/config",
            "rm .git/config",
            "mv .git/config .git/other",
            "echo x > .git/x && mv .git/x .git/config",
            "touch .git/hooks/post-commit",
            "rm .git/hooks/pre-commit",
            "mv .git/hooks .git/other",
            "mv .git other",
            "rm -rf .git",
            "chmod 777 .git/config",
            "ln .git/config linked && echo x > linked",
            "ln .git/hooks/pre-commit linked",
            "python3 -c \"import os; os.truncate('.git/config', 0)\"",
            "exec 3<.git/config && echo x > /proc/self/fd/3",
        ] {
            let (exit, text) = run(&mut place, &command(&["sh", "-c", &format!("cd /workspace && {attempt}")]));
            assert_ne!(exit.code, Some(0), "layered {layered}: {attempt}: {text}");
        }
        let (exit, text) =
            run(&mut place, &command(&["sh", "-c", "cd /workspace && echo x > .git/HEAD && touch beside && cat .git/config"]));
        assert_eq!((exit.code, text.as_str()), (Some(0), "kept"), "the rest can be written");
        drop(place);
        assert_eq!(fs::read_to_string(workspace.join(".git/config")).unwrap(), "kept");
        assert_eq!(contents(&workspace.join(".git/hooks")), ["pre-commit=kept"]);
    }
    Ok(())
}

fn reserved(directory: &Path) -> Outcome {
    let workspace = fresh(directory, "reserved");
    let protected = vec!["/workspace/.git/hooks".into(), "/workspace/.git/config".into(), "/workspace/.bashrc".into()];
    let plan = Plan { binds: vec![Bind::read_write(&workspace, "/workspace")], protected, ..plan(directory) };
    let attempt = "cd /workspace; mkdir -p .git/hooks; echo x > .git/hooks/x; echo x > .git/config; mv .git away; rm -rf .git .bashrc; echo x > .bashrc; echo x > ok; cat ok";
    for _ in 0..2 {
        let (code, text) = shell(&plan, attempt);
        assert!(code == Some(0) && text.ends_with("x\n"), "{text}");
        assert_eq!(contents(&workspace), ["ok=x\n"]);
    }
    // Two at once: the names stay taken until the last one has ended.
    let mut first = Place::start(&plan).unwrap();
    let second = Place::start(&plan).unwrap();
    drop(second);
    let (exit, text) = run(&mut first, &command(&["sh", "-c", "cd /workspace; mkdir -p .git/hooks || ls -a"]));
    assert!(exit.code == Some(0) && text.contains(".bashrc"), "{text}");
    assert!(workspace.join(".git").exists());
    drop(first);
    assert_eq!(contents(&workspace), ["ok=x\n"]);
    // What a crash leaves is taken over by the next and then removed.
    let mark = "import os, sys; os.mkdir(sys.argv[1]); os.setxattr(sys.argv[1], 'user.stead.reserved', b'1')";
    assert!(std::process::Command::new("python3").args(["-c", mark]).arg(workspace.join(".git")).status().unwrap().success());
    shell(&plan, "true");
    assert_eq!(contents(&workspace), ["ok=x\n"]);
    // A part of it that is there is the owner's and stays.
    let (workspace, plan) =
        (fresh(directory, "partly"), |workspace: &Path| Plan { binds: vec![Bind::read_write(workspace, "/workspace")], ..plan.clone() });
    fs::create_dir(workspace.join(".git")).unwrap();
    let (_, text) =
        shell(&plan(&workspace), "cd /workspace; echo x > .git/config; echo x > .git/HEAD; mkdir .git/hooks; mv .git away; ls -A .git");
    assert!(text.ends_with("HEAD\nconfig\nhooks\n"), "{text}");
    assert_eq!(contents(&workspace), [".git", ".git/HEAD=x\n"]);
    // A repository whose directory is elsewhere has a file there.
    let elsewhere = fresh(directory, "elsewhere");
    fs::write(elsewhere.join(".git"), "gitdir: ../x").unwrap();
    let (_, text) =
        shell(&plan(&elsewhere), "cd /workspace; mv .git x; rm .git; echo x > .git; mkdir -p .git/hooks; cat .git; touch beside");
    assert!(text.ends_with("gitdir: ../x"), "{text}");
    assert_eq!(contents(&elsewhere), [".git=gitdir: ../x", "beside="]);
    // Where nobody inside can make it, nothing needs to stand in, and the rest can be written.
    if !rustix::process::geteuid().is_root() {
        let nested = Plan { binds: vec![Bind::read_write("/", "/workspace")], ..plan(&elsewhere) };
        let script = format!("! mkdir -p /workspace/.git/hooks && touch /workspace{}/ok", elsewhere.display());
        assert_eq!(shell(&nested, &script).0, Some(0));
        fs::remove_file(elsewhere.join("ok")).unwrap();
    }
    // In memory there is nobody to leave it to.
    let in_memory = Plan { protected: vec!["/home/stead/.config/x".into()], ..common::plan(directory) };
    let (code, _) = shell(&in_memory, "cd /home/stead && touch y .config/y && ! echo x > .config/x && ! mv .config z");
    assert_eq!(code, Some(0));
    Ok(())
}

fn reserved_in_a_layer(directory: &Path) -> Outcome {
    let bottom = fresh(directory, "bottom");
    let overlay = layers(directory, vec![bottom]);
    let upper = overlay.upper.clone();
    let protected = vec!["/workspace/.git/hooks".into(), "/workspace/.bashrc".into()];
    let plan = Plan { binds: vec![Bind::overlay(overlay, "/workspace")], protected, ..plan(directory) };
    let (_, text) =
        shell(&plan, "cd /workspace; rm -rf .git .bashrc; mkdir .git/hooks; echo x > .bashrc; mv .git away; ls -A . .git; echo ok > file");
    assert!(text.ends_with(".:\n.bashrc\n.git\n\n.git:\nhooks\n"), "{text}");
    assert_eq!(contents(&upper), ["file=ok\n"]);
    // Also after the inside has removed what was there below.
    let bottom = fresh(directory, "bottom");
    fs::create_dir(bottom.join(".git")).unwrap();
    let overlay = layers(directory, vec![bottom]);
    let open = Plan { binds: vec![Bind::overlay(overlay, "/workspace")], protected: Vec::new(), ..plan };
    assert_eq!(shell(&open, "rmdir /workspace/.git").0, Some(0));
    let closed = Plan { protected: vec!["/workspace/.git/hooks".into()], ..open };
    assert_ne!(shell(&closed, "mkdir -p /workspace/.git/hooks").0, Some(0));
    Ok(())
}

fn links_fail_closed(directory: &Path) -> Outcome {
    let workspace = fresh(directory, "links");
    fs::create_dir_all(workspace.join("real/hooks")).unwrap();
    symlink("real", workspace.join(".git")).unwrap();
    symlink("/etc", workspace.join("out")).unwrap();
    for path in ["/workspace/.git/hooks", "/workspace/out", "/workspace/out/passwd", "/workspace/.git"] {
        let plan = Plan { binds: vec![Bind::read_write(&workspace, "/workspace")], ..plan(directory) };
        assert!(refusal(&Plan { protected: vec![path.into()], ..plan.clone() }).contains("link"), "{path}");
        assert!(refusal(&Plan { hidden: vec![path.into()], ..plan.clone() }).contains("link"), "{path}");
        let below = Bind { make_target: true, ..Bind::read_only("/usr", path) };
        let plan = Plan { binds: vec![below, plan.binds[0].clone()], ..plan };
        assert!(refusal(&plan).contains("link"), "{path}");
    }
    for path in ["/workspace/../etc", "relative/../x", "/"] {
        assert!(matches!(Place::start(&Plan { protected: vec![path.into()], ..plan(directory) }), Err(Error::Inside(_))));
    }
    Ok(())
}

fn hidden(directory: &Path) -> Outcome {
    let workspace = fresh(directory, "hidden");
    fs::create_dir(workspace.join("secrets")).unwrap();
    fs::write(workspace.join("secrets/key"), "secret").unwrap();
    fs::write(workspace.join(".env"), "secret").unwrap();
    let hidden = vec!["/workspace/secrets".into(), "/workspace/.env".into(), "/workspace/missing".into()];
    let plan = Plan { binds: vec![Bind::read_write(&workspace, "/workspace")], hidden, ..plan(directory) };
    let script = "cd /workspace; cat .env secrets/* 2>/dev/null; rm -rf secrets .env 2>/dev/null; mv secrets x 2>/dev/null; echo x > secrets/x; ls secrets; mkdir d; ln .env d/env";
    let (_, text) = shell(&plan, script);
    assert!(!text.contains("secret\n") && !text.contains("key"), "{text}");
    assert_eq!(fs::read_to_string(workspace.join("secrets/key")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(workspace.join(".env")).unwrap(), "secret");
    Ok(())
}

fn targets_on_the_host(directory: &Path) -> Outcome {
    let (workspace, extra) = (fresh(directory, "targets"), fresh(directory, "extra"));
    fs::write(extra.join("file"), "extra").unwrap();
    let file = extra.join("file");
    let with = |bind: Bind| Plan { binds: vec![bind, Bind::read_write(&workspace, "/workspace")], ..plan(directory) };
    assert!(refusal(&with(Bind::read_only(&extra, "/workspace/deep/data"))).contains("missing"));
    assert!(refusal(&with(Bind::read_only(&file, "/workspace/file"))).contains("missing"));
    assert!(contents(&workspace).is_empty());
    let made = Bind { make_target: true, ..Bind::read_only(&extra, "/workspace/deep/data") };
    assert_eq!(shell(&with(made), "cat /workspace/deep/data/file"), (Some(0), "extra".to_owned()));
    assert_eq!(contents(&workspace), ["deep", "deep/data"]);
    // Where it is there already, nothing needs to be made; and elsewhere it is ours to make.
    assert_eq!(shell(&with(Bind::read_only(&extra, "/workspace/deep/data")), "cat /workspace/deep/data/file").0, Some(0));
    assert_eq!(shell(&with(Bind::read_only(&file, "/home/stead/a/file")), "cat /home/stead/a/file").0, Some(0));
    assert!(refusal(&with(Bind::read_only(&file, "/workspace/deep"))).contains("directory"));
    assert!(refusal(&with(Bind::read_only(&extra, "/usr/no-such"))).contains("missing"));
    let layered = Bind::overlay(layers(directory, vec![extra]), "/workspace/deep/data");
    assert_eq!(shell(&with(layered), "echo changed > /workspace/deep/data/file && cat /workspace/deep/data/file").1, "changed\n");
    assert_eq!(fs::read_to_string(file).unwrap(), "extra");
    let _ = Source::Host { path: workspace, access: Access::ReadOnly };
    Ok(())
}

fn directory_root(directory: &Path) -> Outcome {
    let system = little_system(directory);
    let workspace = fresh(directory, "workspace");
    let plan =
        Plan { root: RootView::Directory(system.clone()), binds: vec![Bind::read_write(&workspace, "/workspace")], ..plan(directory) };
    let before = contents(&system);
    let mut place = Place::start(&plan).unwrap();
    let script = "ls /; cat /top /etc/hosts; touch /tmp/x /run/x /workspace/made /dev/shm/x; ls /usr/share; ls /proc/1 >/dev/null && echo end; touch /etc/x; touch /x; touch /usr/x; touch /dev/x";
    let (exit, text) = run(&mut place, &library_path(command(&["sh", "-c", script])));
    assert_ne!(exit.code, Some(0));
    for line in ["opt", "workspace", "of its own127.0.0.1 localhost", "end"] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
    assert!(!text.contains("var\n") && text.contains("home\n"), "{text}");
    drop(place);
    assert_eq!(contents(&system), before);
    assert_eq!(contents(&workspace), ["made="]);
    Ok(())
}

fn overlay_root(directory: &Path) -> Outcome {
    let system = little_system(directory);
    let before = contents(&system);
    let overlay = layers(directory, vec![system.clone()]);
    let upper = overlay.upper.clone();
    let workspace = fresh(directory, "workspace");
    let plan = Plan { root: RootView::Overlay(overlay), binds: vec![Bind::read_write(&workspace, "/workspace")], ..plan(directory) };
    let mut place = Place::start(&plan).unwrap();
    let script =
        "touch /etc/made /usr/bin/made /made && mkdir -p /var/lib/made && touch /tmp/x && echo yes; touch /dev/x; touch /proc/sys/x";
    let (_, text) = run(&mut place, &library_path(command(&["sh", "-c", script])));
    assert!(text.starts_with("yes\n"), "{text}");
    drop(place);
    assert_eq!(contents(&system), before);
    let made = contents(&upper);
    for name in ["etc/made=", "usr/bin/made=", "made=", "var/lib/made"] {
        assert!(made.iter().any(|made| made == name), "{name}: {made:?}");
    }
    assert!(!made.iter().any(|made| made.starts_with("dev/") || made.starts_with("tmp/")), "{made:?}");
    let mut again = Place::start(&plan).unwrap();
    assert_eq!(run(&mut again, &library_path(command(&["cat", "/etc/made"]))).0.code, Some(0));
    Ok(())
}

fn bounded_memory(directory: &Path) -> Outcome {
    let plan = Plan { tmp_size: Some(8 << 20), ..plan(directory) };
    let script = "head -c 6000000 /dev/zero > /tmp/x && head -c 6000000 /dev/zero > /dev/shm/x";
    let (code, text) = shell(&plan, script);
    assert!(code != Some(0) && text.contains("No space"), "{text}");
    assert_eq!(shell(&plan, "head -c 6000000 /dev/zero > /home/stead/x").0, Some(0));
    Ok(())
}

fn held_layers(directory: &Path) -> Outcome {
    let overlay = layers(directory, vec![fresh(directory, "bottom")]);
    let upper = overlay.upper.clone();
    let plan = Plan { binds: vec![Bind::overlay(overlay, "/workspace")], ..plan(directory) };
    let mut place = Place::start(&plan).unwrap();
    run(&mut place, &command(&["sh", "-c", "echo x > /workspace/made"]));
    let held = place.hold_mounts();
    assert!(held.is_some());
    place.end();
    drop(held);
    assert_eq!(contents(&upper), ["made=x\n"]);
    let without = Place::start(&common::plan(directory)).unwrap();
    assert!(without.hold_mounts().is_none());
    Ok(())
}

fn exchanged_workspace(directory: &Path) -> Outcome {
    let workspace = fresh(directory, "exchanged");
    fs::write(workspace.join("right"), "").unwrap();
    let plan = Plan { binds: vec![Bind::read_write(&workspace, "/workspace")], ..plan(directory) };
    let mut place = Place::start(&plan).unwrap();
    let aside = directory.join("exchanged-aside");
    let _ = fs::remove_dir_all(&aside);
    fs::rename(&workspace, &aside).unwrap();
    symlink("/etc", &workspace).unwrap();
    let (_, text) = run(&mut place, &command(&["ls", "/workspace"]));
    fs::remove_file(&workspace).unwrap();
    assert_eq!(text, "right\n");
    Ok(())
}

/// Somebody who may write to the workspace, such as another place on it, while a place is being made there.
fn raced_targets(directory: &Path) -> Outcome {
    let (workspace, victim) = (fresh(directory, "raced"), fresh(directory, "victim"));
    fs::create_dir(workspace.join("a")).unwrap();
    fs::write(victim.join("config"), "kept").unwrap();
    symlink(&victim, workspace.join("b")).unwrap();
    let exchange = "
import ctypes, os, sys
os.chdir(sys.argv[1]); libc = ctypes.CDLL(None)
while os.getppid() == int(sys.argv[2]): libc.syscall(316, -100, b'a', -100, b'b', 2)";
    let own = std::process::id().to_string();
    let mut racer = std::process::Command::new("python3").args(["-c", exchange]).arg(&workspace).arg(own).spawn().unwrap();
    let rounds = if std::env::var_os("STEAD_PROVE").is_some() { 5000 } else { 150 };
    let (mut made, mut refused) = (0, 0);
    for _ in 0..rounds {
        let below = Bind { make_target: true, ..Bind::read_only("/usr", "/workspace/a/deep/data") };
        let plan = Plan {
            binds: vec![below, Bind::read_write(&workspace, "/workspace")],
            protected: vec!["/workspace/a/config".into(), "/workspace/a/new".into()],
            hidden: vec!["/workspace/a/secret".into()],
            ..plan(directory)
        };
        match Place::start(&plan) {
            Ok(_) => made += 1,
            Err(_) => refused += 1,
        }
        assert_eq!(contents(&victim), ["config=kept"], "after {made} that were made and {refused} that were refused");
    }
    racer.kill().unwrap();
    racer.wait().unwrap();
    assert!(refused > 0, "nothing was raced");
    println!("{made} made, {refused} refused");
    Ok(())
}
