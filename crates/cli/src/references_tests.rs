use super::*;

#[derive(Debug)]
struct Thing(&'static str, &'static str);

impl Candidate for Thing {
    const NOUN: &'static str = "thing";
    const PREFIX: &'static str = "env";

    fn id(&self) -> String {
        self.0.to_owned()
    }

    fn name(&self) -> Option<&str> {
        Some(self.1)
    }
}

fn find(reference: &str) -> Result<&'static str, Code> {
    let things = vec![
        Thing("env_0196aaaa0000", "web"),
        Thing("env_0196aaaa1111", "web-two"),
        Thing("env_0196bbbb2222", "Größe"),
        Thing("env_0196cccc3333", "0196aaaa"),
    ];
    choose(reference, things).map(|thing| thing.1).map_err(|error| error.code())
}

#[test]
fn a_whole_name_or_id_wins_over_prefixes() {
    assert_eq!(find("web"), Ok("web"));
    assert_eq!(find("WEB"), Ok("web"));
    assert_eq!(find("GRÖSSE"), Err(Code::NotFound));
    assert_eq!(find("GRÖßE"), Ok("Größe"));
    assert_eq!(find("env_0196aaaa1111"), Ok("web-two"));
    assert_eq!(find("0196aaaa"), Ok("0196aaaa"));
}

#[test]
fn a_prefix_that_fits_one_is_enough() {
    assert_eq!(find("web-"), Ok("web-two"));
    assert_eq!(find("gr"), Ok("Größe"));
    assert_eq!(find("env_0196b"), Ok("Größe"));
    assert_eq!(find("0196bb"), Ok("Größe"));
    assert_eq!(find("0196bbbb2222"), Ok("Größe"));
}

#[test]
fn what_fits_several_or_none_is_an_error() {
    assert_eq!(find("we"), Err(Code::Ambiguous));
    assert_eq!(find("env_0196aaaa"), Err(Code::Ambiguous));
    assert_eq!(find("env_"), Err(Code::NotFound));
    assert_eq!(find("nope"), Err(Code::NotFound));
    // Five digits are too few for an id, and no name begins with them.
    assert_eq!(find("0196b"), Err(Code::NotFound));
}

#[test]
fn ambiguity_lists_the_candidates() {
    let error = choose("x", vec![Thing("env_1", "xa"), Thing("env_2", "xb")]).unwrap_err();
    assert!(error.message().contains("xa (env_1), xb (env_2)"), "{error}");
    assert_eq!(error.details()["candidates"].as_array().map(Vec::len), Some(2));
}
