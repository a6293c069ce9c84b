//! Checks that damage of the files of an index is found, and that the index is built again.

use std::fs;
use std::path::Path;

use doppel_search::index::{Index, IndexError, IndexProgress, IndexSource};
use doppel_search::query::SearchQuery;
use doppel_store::Seq;

use crate::{RandomNumbers, commit, letter, open, put, settings};

fn fill_index(folder: &Path) {
    fs::create_dir_all(folder.parent().expect("it is in one")).expect("a folder");
    let (index, _) = open(folder);
    for at in 0..200_u64 {
        put(&index, &format!("r{at}"), at + 1, &letter(&format!("路灯不亮，三号路{at}号，请维修")));
        if at % 50 == 49 {
            commit(&index, at + 1);
        }
    }
    index.remove(&crate::id("r7")).expect("a write");
    commit(&index, 201);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

#[test]
fn with_a_missing_truncated_or_overwritten_file_the_index_is_complete_or_replaced() {
    let whole = tempfile::tempdir().expect("a folder");
    fill_index(whole.path());
    let names: Vec<_> =
        fs::read_dir(whole.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(names.len() > 8, "{names:?}");
    let mut numbers = RandomNumbers(5);
    let mut replaced = 0;
    let mut kept = 0;
    for name in &names {
        for harm in ["missing", "empty", "cut", "flipped", "noise"] {
            let folder = tempfile::tempdir().expect("a folder");
            copy_folder(whole.path(), folder.path());
            let file = folder.path().join(name);
            let mut bytes = fs::read(&file).expect("a file");
            match harm {
                "missing" => fs::remove_file(&file).expect("it is there"),
                "empty" => fs::write(&file, []).expect("a write"),
                "cut" => fs::write(&file, &bytes[..bytes.len() / 2]).expect("a write"),
                "flipped" => {
                    if bytes.is_empty() {
                        continue;
                    }
                    let at = numbers.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << numbers.below(8);
                    fs::write(&file, &bytes).expect("a write");
                }
                _ => {
                    let noise: Vec<u8> = (0..bytes.len() + 9).map(|_| numbers.below(256) as u8).collect();
                    fs::write(&file, noise).expect("a write");
                }
            }
            let (index, is_new) = open(folder.path());
            let wanted = SearchQuery { text: "路灯".into(), limit: 1000, ..SearchQuery::default() };
            let found = index.search(&settings(), &wanted).expect("an answer").hits.len();
            if is_new {
                assert_eq!((index.reached(), found), (Seq(0), 0), "{name:?} {harm}");
                replaced += 1;
            } else {
                assert_eq!((index.reached(), found), (Seq(201), 199), "{name:?} {harm}");
                kept += 1;
            }
            // In both cases the index can be written.
            put(&index, "new", 300, &letter("井盖破损"));
            commit(&index, 300);
        }
    }
    assert!(replaced > kept, "{replaced} were replaced, {kept} were not");
}

#[test]
fn an_index_of_another_collection_or_with_other_settings_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    fill_index(folder.path());
    assert!(!open(folder.path()).1);
    let mut other = settings();
    other.text.hmm = !other.text.hmm;
    for source in [IndexSource::new("other", &settings()), IndexSource::new("letters", &other)] {
        let again = tempfile::tempdir().expect("a folder");
        copy_folder(folder.path(), again.path());
        let opened = Index::open(again.path(), source, &settings()).expect("an index");
        assert!(opened.created_because.expect("a reason").contains("other settings"));
        assert!(opened.index.count().unwrap() == 0);
    }
}

#[test]
fn an_index_that_the_system_refuses_to_read_stays_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    fill_index(folder.path());
    let meta = folder.path().join("meta.json");
    let aside = folder.path().join("aside");
    fs::rename(&meta, &aside).expect("a move");
    // The system refuses to open a link to itself, like a file when too many files are open.
    std::os::unix::fs::symlink(&meta, &meta).expect("a link to itself");
    let refused = Index::open(folder.path(), IndexSource::new("letters", &settings()), &settings());
    assert!(matches!(refused, Err(IndexError::Io(_))));
    fs::remove_file(&meta).expect("a link");
    fs::rename(&aside, &meta).expect("a move");
    let (index, is_new) = open(folder.path());
    assert!(!is_new && index.count().unwrap() == 199);
}

#[test]
fn no_folder_is_created_in_the_place_of_a_data_directory_that_was_moved_away() {
    let above = tempfile::tempdir().expect("a folder");
    let data = above.path().join("data");
    let aside = above.path().join("aside");
    fill_index(&data.join("index"));
    let (index, _) = open(&data.join("index"));
    fs::rename(&data, &aside).expect("a move");
    assert!(matches!(index.reopen(), Err(IndexError::Io(_))));
    assert!(!data.exists());
    fs::rename(&aside, &data).expect("a move back");
    assert_eq!(index.reopen().expect("it is there again"), None);
    assert_eq!(index.count().unwrap(), 199);
}

#[test]
fn reopening_keeps_an_undamaged_index_and_replaces_a_damaged_one() {
    let folder = tempfile::tempdir().expect("a folder");
    fill_index(folder.path());
    let (index, _) = open(folder.path());
    put(&index, "uncommitted", 999, &letter("路灯"));
    assert_eq!(index.reopen().expect("a look"), None);
    assert!(index.count().unwrap() == 199 && index.reached() == Seq(201));
    let filling = IndexProgress::Filling { after: Seq(7), last: Seq(300) };
    index.commit(filling).expect("a commit");
    assert_eq!(index.reached(), Seq(0), "an index that is being filled has reached no change");
    assert_eq!(index.reopen().expect("a look"), None);
    assert_eq!(index.progress(), filling);
    for entry in fs::read_dir(folder.path()).expect("a folder").flatten() {
        let is_text = entry.path().extension().is_some_and(|extension| extension == "pos");
        if is_text {
            fs::write(entry.path(), b"noise").expect("a write");
        }
    }
    assert!(index.reopen().expect("a look").expect("a reason").contains("damaged"));
    assert!(index.count().unwrap() == 0 && index.progress() == IndexProgress::Reached(Seq(0)));
}

#[test]
fn a_reset_index_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    fill_index(folder.path());
    let (index, _) = open(folder.path());
    assert!(index.count().unwrap() == 199 && index.disk_bytes() > 1000);
    index.reset().expect("a reset");
    assert!(index.count().unwrap() == 0 && index.reached() == Seq(0));
    put(&index, "a", 1, &letter("路灯不亮"));
    commit(&index, 5);
    drop(index);
    let (index, is_new) = open(folder.path());
    assert!(!is_new && index.count().unwrap() == 1 && index.reached() == Seq(5));
}
