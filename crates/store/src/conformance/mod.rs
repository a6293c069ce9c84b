//! The conformance suite: checks of the contract in [`super`] that every implementation must pass.
//!
//! A check is an async function with an open store. [`ALL`] lists the checks of records, [`SCHEMES`] the checks of channels,
//! [`GENERATIONS`], [`CHANGES`], [`DECISIONS`], [`TASKS`], [`FREQUENCIES`], [`VALUES`] and [`KEYS`] list the other checks. A check panics
//! if the store violates the contract. The checks use invented signatures ([`SampleRecord`]), so that a failure is a fault of the store.
//! Their collections have the names of the checks, so that several checks may share one store; the checks of [`TASKS`] need a store without
//! other tasks.

mod basics;
mod changes;
mod decisions;
mod desk;
mod frequencies;
mod generations;
mod kept;
mod keys;
mod races;
mod removals;
mod samples;
mod schemes;
mod stages;
mod switching;
mod tasks;
mod values;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use self::desk::{TestCollection, id, stored};
pub use self::keys::{account, key};
pub use self::samples::{RADIUS, SHARED_KEYS, SIMHASH, SampleJudge, SampleRecord, SampleSigning};
use super::Store;

/// A check.
pub type ConformanceCheck = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! checks {
    ($(#[$doc:meta])* $list:ident: $($module:ident::$name:ident),* $(,)?) => {
        $(#[$doc])*
        pub const $list: &[(&str, ConformanceCheck)] = &[$((stringify!($name), |store| Box::pin($module::$name(store)))),*];
    };
}

checks! {
    /// The checks of [`Store`] itself, by name.
    ALL:
    basics::a_record_comes_back_as_it_went_in,
    basics::the_same_content_again_changes_nothing,
    basics::what_is_written_once_is_never_written_over,
    basics::other_fields_are_updated_in_place,
    basics::another_text_replaces_and_never_matches_itself,
    basics::a_removed_record_is_gone_from_every_lookup,
    basics::skip_stores_nothing_when_there_is_a_duplicate,
    basics::a_skipped_replacement_leaves_the_old_record,
    basics::duplicate_of_is_the_earliest_match,
    basics::a_lookup_leaves_out_the_record_asked_about,
    basics::pages_follow_seq_order_without_gaps_or_repeats,
    basics::records_are_read_by_their_seqs,
    basics::collections_do_not_see_each_other,
    basics::a_dropped_collection_can_be_made_again_empty,
    basics::a_new_profile_needs_an_empty_collection,
    basics::another_generation_is_refused,
    basics::unknown_collections_are_refused,
    basics::signatures_are_handed_to_judges_that_ask,
    stages::the_stages_of_a_registration_and_of_a_lookup_are_told_one_after_the_other,
    kept::what_stays_of_a_record_without_text_comes_back_as_it_went_in,
    kept::records_without_text_are_told_apart_by_their_hashes,
    kept::what_a_collection_keeps_is_decided_when_it_is_made,
    races::of_a_family_exactly_one_is_original,
    races::cyclic_triples_name_only_earlier_records,
    races::skippers_of_a_family_leave_exactly_one,
    races::the_same_id_from_many_callers_is_stored_once,
    races::removal_and_registration_leave_no_trace_of_the_removed,
    races::replacements_beside_lookups_are_always_found,
    races::a_caller_that_gives_up_leaves_a_whole_record_or_none,
    races::who_goes_on_from_the_last_seq_misses_no_record,
    removals::a_record_is_removed_only_in_the_version_that_was_seen,
    removals::a_record_is_removed_only_under_the_retention_that_asks_for_it,
    removals::a_duplicate_is_removed_only_beside_the_record_that_stays,
    removals::an_acknowledged_update_is_never_lost_to_a_removal_under_a_condition,
    removals::a_duplicate_about_which_somebody_decides_meanwhile_stays_or_takes_the_decision_along,
    removals::a_duplicate_is_never_removed_after_the_record_that_stays,
}

checks! {
    /// The checks of channels. They use real signatures of every scheme, which are made from texts.
    SCHEMES:
    schemes::every_scheme_finds_what_its_keys_and_signatures_say,
    schemes::a_hot_issue_is_found_by_its_earliest_records,
    schemes::a_hot_issue_is_found_by_its_latest_records_if_only_near_times_match,
}

checks! {
    /// The checks of [`GenerationStore`](super::GenerationStore), and of the work that registrations do for generations.
    GENERATIONS:
    generations::one_generation_is_built_at_a_time_and_few_are_kept,
    generations::registrations_name_every_generation_and_are_filed_in_each,
    generations::filing_leaves_out_what_is_gone_or_filed_already,
    generations::removals_and_replacements_reach_every_generation,
    generations::an_update_is_one_only_if_no_generation_reads_another_text,
    generations::a_dropped_generation_is_gone_and_its_number_is_not_given_again,
    generations::statistics_come_back_as_they_went_in,
    generations::a_new_profile_of_an_empty_collection_ends_all_other_generations,
    generations::settings_are_not_lost_to_a_generation_that_is_begun_meanwhile,
    generations::a_collection_made_again_has_nothing_of_the_one_before,
    generations::registrations_record_all_their_matches_as_pairs,
    generations::pairs_are_replaced_paged_and_go_with_their_record,
    switching::an_activated_generation_answers_and_the_one_before_waits,
    switching::going_back_gives_the_first_answers_and_those_since,
    switching::any_number_of_reindexes_follow_each_other_and_the_newest_previous_generation_is_kept,
    switching::only_complete_generations_of_the_collection_go_live,
    switching::the_digest_is_that_of_the_live_generation,
    switching::an_update_under_another_generation_is_known_after_going_back,
    switching::lookups_beside_an_activation_miss_nothing_and_mix_nothing,
    switching::registrations_beside_a_whole_reindex_are_all_filed,
    switching::the_pairs_of_the_generation_before_stay_in_force_until_all_are_found,
}

checks! {
    /// The checks of [`ChangeFeed`](super::ChangeFeed).
    CHANGES:
    changes::changes_are_listed_in_commit_order_by_their_kinds,
    changes::changes_show_records_as_they_are_now,
    changes::who_follows_the_changes_beside_writers_ends_with_the_state,
    changes::a_wait_for_changes_ends_with_the_next_one,
    changes::what_is_forgotten_is_said_and_records_are_never_forgotten,
    changes::a_collection_made_again_has_no_changes_of_the_one_before,
}

checks! {
    /// The checks of [`DecisionStore`](super::DecisionStore), and of lookups with confirmed pairs.
    DECISIONS:
    decisions::rulings_add_up_and_the_last_one_holds,
    decisions::decisions_are_listed_by_pair_and_by_record,
    decisions::a_pair_has_room_for_so_many_rulings,
    decisions::a_whole_decision_takes_the_place_of_what_was_ruled,
    decisions::decisions_outlive_a_replacement_and_go_with_the_record_and_the_collection,
    decisions::rulings_at_once_are_all_kept,
    decisions::a_ruling_needs_both_records,
    decisions::a_ruling_rests_on_the_rulings_that_were_seen,
    decisions::a_ruling_needs_the_records_that_were_seen,
    decisions::decisions_that_name_no_record_are_found_and_dropped,
    decisions::no_decision_outlives_a_record_that_is_removed_meanwhile,
    decisions::decisions_of_unknown_collections_are_refused,
    decisions::a_confirmed_record_is_a_candidate_whatever_the_index_says,
    decisions::confirmed_records_that_are_not_there_are_left_out,
    decisions::a_confirmed_record_counts_once,
    decisions::confirmed_pairs_put_at_once_name_each_other,
}

checks! {
    /// The checks of [`FrequencyStore`](super::FrequencyStore).
    FREQUENCIES:
    frequencies::versions_follow_each_other_and_the_one_before_stays_readable,
    frequencies::of_puts_at_once_exactly_one_is_in_force,
    frequencies::they_outlast_all_other_changes_of_the_collection,
    frequencies::a_collection_made_again_has_none,
    frequencies::what_is_too_large_is_refused_with_the_limit,
}

checks! {
    /// The checks of [`ValueStore`](super::ValueStore).
    VALUES:
    values::a_value_is_changed_by_a_caller_that_names_its_version,
    values::one_of_many_simultaneous_changes_of_a_value_is_made,
    values::values_are_listed_and_deleted,
    values::values_are_deleted_with_their_collection,
}

checks! {
    /// The checks of [`TaskStore`](super::TaskStore). They run in this order, in a store without other tasks.
    TASKS:
    tasks::a_task_comes_back_as_it_went_in,
    tasks::who_names_another_version_changes_nothing,
    tasks::a_collection_has_one_unfinished_task,
    tasks::of_many_holders_one_wins_and_of_many_tasks_one_begins,
    tasks::tasks_outlive_their_collection,
    tasks::the_oldest_finished_tasks_are_forgotten,
}

checks! {
    /// The checks of [`KeyStore`](super::KeyStore). They run in this order, in a store without keys.
    KEYS:
    keys::keys_and_accounts_come_back_as_they_went_in,
    keys::who_names_another_version_of_the_keys_changes_nothing,
    keys::of_changes_of_the_keys_at_once_exactly_one_is_made,
}
