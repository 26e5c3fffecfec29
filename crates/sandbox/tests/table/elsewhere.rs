//! Cases whose attack needs more than a place, and the tests that guard them.

use std::fs;
use std::path::Path;

/// Id, case, file and the name of the test in it.
pub const ELSEWHERE: &[(&str, &str, &str, &str)] = &[
    (
        "P11",
        "a daemon that left its session outlives the place",
        "crates/sandbox/tests/hostile.rs",
        "everything_inside_ends_with_the_place",
    ),
    (
        "P12",
        "a grandchild that is deaf outlives a timeout",
        "crates/place/tests/keeping.rs",
        "when_its_time_is_up_so_is_that_of_what_it_left",
    ),
    ("P13", "ten thousand strays", "crates/sandbox/tests/resources.rs", "many_strays"),
    ("P14", "something runs on without its keeper", "crates/sandbox/tests/hostile.rs", "the_inside_ends_with_a_keeper_that_is_killed"),
    ("P15", "a signal that comes late hits another process", "crates/sandbox/tests/place.rs", "late_signal"),
    (
        "P17",
        "what the keeper does about signals and descriptors is seen inside",
        "crates/sandbox/tests/hostile.rs",
        "what_the_keeper_does_about_signals_and_descriptors_stays_with_it",
    ),
    ("P19", "a child holds the output and with it the end", "crates/place/tests/keeping.rs", "a_child_left_behind_does_not_hold_the_exit"),
    ("P20", "output without end fills the disk", "crates/place/tests/keeping.rs", "a_flood_of_output_is_kept_to_its_cap"),
    ("P20", "readers that stall, and one that hangs up", "tests/workspaces/hostile.rs", "who_does_not_read_costs_no_memory"),
    ("P20", "input that nobody reads piles up", "tests/workspaces/hostile.rs", "who_does_not_read_its_input_is_given_no_more"),
    ("P22", "what cannot be run passes for something that ran", "crates/sandbox/tests/place.rs", "start_failures"),
    ("N04", "a place reaches another by sockets, ports, files or keys", "crates/sandbox/tests/escapes.rs", "two_places"),
    ("N12", "root of a system of its own is root of something else", "crates/sandbox/tests/system.rs", "little_root"),
    ("N14", "a mount made later crosses", "crates/sandbox/tests/hostile.rs", "mounts_made_later_cross_neither_way"),
    ("N18", "the inside is somebody on the host", "crates/sandbox/tests/system.rs", "identities"),
    ("N19", "a place begins although a step failed", "crates/sandbox/tests/layout.rs", "links_fail_closed"),
    ("S12", "the host's network brings its abstract sockets along", "crates/sandbox/tests/programs.rs", "abstract_sockets"),
    ("F06", "the workspace is exchanged for a link meanwhile", "crates/sandbox/tests/layout.rs", "exchanged_workspace"),
    ("F06", "a target is exchanged for a link while a place is made", "crates/sandbox/tests/layout.rs", "raced_targets"),
    ("F07", "a protected path is a link", "crates/sandbox/tests/layout.rs", "links_fail_closed"),
    ("F16", "attributes of the overlay are forged", "crates/sandbox/tests/layout.rs", "forged_attributes"),
    (
        "F03",
        "a link in the workspace leads a reader on the host out",
        "crates/place/tests/races.rs",
        "a_link_in_place_of_a_directory_leads_nowhere",
    ),
    ("F04", "directories and links are swapped meanwhile", "crates/place/tests/races.rs", "a_link_in_place_of_a_directory_leads_nowhere"),
    ("F05", "a tree without end, with a link to the root", "crates/place/tests/races.rs", "a_tree_without_end_is_removed_and_nothing_else"),
    (
        "F05",
        "a destroyed workspace of any depth, with links",
        "crates/providers/src/local/removal.rs",
        "links_are_removed_and_never_followed",
    ),
    ("F28", "a destroyed workspace without permissions", "crates/providers/src/local/removal.rs", "directories_without_permissions_go"),
    (
        "F30",
        "files without end, and files that change while they are read",
        "crates/place/tests/trees.rs",
        "files_without_end_and_files_that_change_do_no_harm",
    ),
    ("F31", "an archive that leads out", "crates/place/tests/trees.rs", "whatever_an_archive_says_it_stays_below_its_directory"),
    (
        "F36",
        "a layer changes while others see it",
        "tests/checkpoints/basics.rs",
        "a_sealed_layer_never_changes_and_what_was_planted_leads_nowhere",
    ),
    ("I10", "the server is reached from inside", "tests/workspaces/hostile.rs", "the_server_is_out_of_reach_from_inside"),
    ("W05", "another host by CONNECT and absolute form", "crates/egress/tests/egress/proxies.rs", "connect_and_absolute_form"),
    ("W05", "another host by SOCKS", "crates/egress/tests/egress/proxies.rs", "socks"),
    (
        "W06",
        "spellings of addresses, and names that lead inside",
        "crates/egress/tests/egress/names.rs",
        "literal_addresses_and_names_that_lead_inside_are_refused",
    ),
    ("W06", "spellings of addresses that pass for names", "crates/egress/src/host.rs", "odd_spellings_of_addresses_are_no_names"),
    ("W07", "names that look like listed ones", "crates/egress/src/policy.rs", "wildcards_are_below_at_any_depth_and_never_the_apex"),
    (
        "W08",
        "the name in TLS is another than the one that was looked up",
        "crates/egress/tests/egress/names.rs",
        "tls_passes_to_the_name_that_was_looked_up_and_to_no_other",
    ),
    ("W10", "a lookup carries something out", "crates/egress/tests/egress/names.rs", "names_that_are_not_listed_are_asked_of_nobody"),
    (
        "W15",
        "a relay that is killed lets more through afterwards",
        "tests/workspaces/egress.rs",
        "the_next_relay_is_told_the_policy_that_was_adopted",
    ),
    ("W17", "connections without end", "crates/egress/tests/egress/hostile.rs", "connections_are_bounded_and_come_back"),
    ("W17", "beginnings that are slow or endless", "crates/egress/tests/egress/hostile.rs", "slow_and_endless_beginnings_are_cut"),
    (
        "W18",
        "a second request on a connection names another host",
        "crates/egress/tests/egress/streams.rs",
        "every_request_on_a_connection_must_name_its_host",
    ),
    (
        "W21",
        "private and metadata addresses where everything is open",
        "crates/egress/tests/egress/tun.rs",
        "what_is_not_public_is_refused_at_once",
    ),
    (
        "W24",
        "a connection outlives the policy that allowed it",
        "crates/egress/tests/egress/streams.rs",
        "a_tighter_policy_closes_what_it_denies_and_nothing_else",
    ),
    ("R01", "a fork bomb keeps init from answering", "crates/sandbox/tests/resources.rs", "fork_bomb"),
    (
        "R01",
        "a fork bomb keeps others from being served, or itself from being removed",
        "tests/workspaces/hostile.rs",
        "a_fork_bomb_harms_nobody_else_and_is_removed",
    ),
    ("R12", "a stopped place cannot be ended", "crates/sandbox/tests/resources.rs", "stopped"),
    (
        "L01",
        "a server is killed at any step of a checkpoint, a restore, a fork",
        "tests/checkpoints/kills.rs",
        "a_server_that_is_killed_leaves_each_of_them_done_or_undone",
    ),
    ("L02", "a checkpoint while something writes", "tests/checkpoints/basics.rs", "what_runs_is_in_the_way_or_is_stopped"),
    (
        "L03",
        "a hundred forks, and their parent is deleted",
        "tests/checkpoints/basics.rs",
        "a_hundred_forks_outlive_the_parent_and_its_checkpoint",
    ),
    ("L04", "more layers than the kernel takes", "tests/checkpoints/basics.rs", "many_layers_become_one_behind_what_goes_on"),
    ("L05", "two mounts write to one layer", "tests/checkpoints/basics.rs", "two_environments_never_write_to_one_layer_at_the_same_time"),
    ("L08", "the power goes", "tests/checkpoints/power.rs", "a_durable_checkpoint_survives_the_loss_of_everything_that_was_not_synced"),
    (
        "L09",
        "whoever is killed takes something along, or leaves something behind",
        "tests/crashes/rounds/mod.rs",
        "whoever_is_killed_and_whenever_what_was_acknowledged_stays_and_nothing_else",
    ),
    ("L10", "limits that the host cannot hold are left out silently", "crates/sandbox/tests/resources.rs", "refused"),
];

/// Each of them is there: a test that is renamed or removed does not stay on the page.
pub fn check() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (_, case, file, test) in ELSEWHERE {
        let source = fs::read_to_string(top.join(file)).unwrap_or_default();
        assert!(source.contains(&format!("fn {test}(")), "`{case}`: there is no test {test} in {file}");
    }
}
