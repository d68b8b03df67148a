//! What every store must do, whatever it is made of.
//!
//! A case is a function of a place where a store can be made; it sees nothing but the `Store` trait. The
//! last line of this file runs all cases for SQLite, and another store needs one more line like it.

use std::sync::Arc;

use ctx_store::Store;
use ctx_store::sqlite::{Options, SqliteStore};

mod atomic;
mod commits;
mod context;
mod hand;
mod objects;
mod search;
mod sessions;
mod steps;
mod tokens;
mod turns;
mod upkeep;

/// A place with a store of its own.
trait Place: Sized + Send + Sync {
    /// A place with an empty store for the project [`hand::PROJECT`].
    async fn fresh() -> Self;

    /// One more handle on the place's store, as another process would have it.
    async fn open(&self) -> Arc<dyn Store>;
}

struct Sqlite(tempfile::TempDir);

impl Place for Sqlite {
    async fn fresh() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        SqliteStore::create(dir.path(), hand::PROJECT).expect("an empty directory takes a store");
        Self(dir)
    }

    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path(), Options::default()).expect("it was just made"))
    }
}

macro_rules! tests {
    ($place:ty; $($module:ident { $($case:ident)+ })+) => {$(
        mod $module {
            use crate::Place;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                crate::$module::$case(&<$place>::fresh().await).await;
            })+
        }
    )+};
}

macro_rules! conformance {
    ($name:ident, $place:ty) => {
        mod $name {
            tests! { $place;
                sessions {
                    a_session_is_made_by_the_rule
                    nobody_has_an_unknown_label_or_id
                    a_label_in_use_is_refused_and_its_session_stays
                    of_fifty_at_once_one_gets_the_label
                    a_refusal_changes_nothing
                    a_rule_that_decides_nothing_changes_nothing
                    sessions_are_listed_by_their_newest_activity
                    a_list_shows_of_each_session_what_a_look_at_it_shows
                    what_was_written_is_there_for_the_next_process
                }
                tokens {
                    a_token_is_known_by_its_hash_until_it_is_revoked
                }
                atomic {
                    a_turn_without_its_blob_leaves_nothing_of_its_decision
                    a_turn_without_its_body_leaves_nothing_of_its_decision
                    one_of_sixty_four_fails_alone
                    a_refusal_among_others_is_no_fault_of_theirs
                    an_event_alone_is_kept_as_well
                    every_event_gets_the_next_number
                    a_decision_of_many_megabytes_is_stored_whole
                }
                steps {
                    two_hundred_observers_make_one_unbroken_chain
                    steps_read_back_as_they_were_observed
                    steps_are_paged_from_any_place
                    a_task_is_found_by_its_id_open_or_ended
                    the_files_of_a_task_are_shown_to_who_may_seal_it
                    the_narrative_is_what_was_noted_in_a_stretch_of_time
                    the_narrative_counts_sentences_and_not_steps
                }
                turns {
                    a_turn_reads_back_as_it_was_said
                    a_turn_under_a_head_that_moved_is_refused
                    of_fifty_appenders_no_two_get_the_same_parent
                    turns_are_walked_from_the_newest_and_no_further_than_asked
                    an_unknown_head_is_not_found
                    a_fork_shares_every_turn_up_to_where_it_began
                    a_fork_of_an_unknown_turn_is_not_made
                    the_turns_since_a_task_began_are_counted
                    one_turn_in_two_sessions_is_one_object
                    lines_that_part_meet_where_they_did_however_deep
                }
                context {
                    a_compaction_is_read_back_and_ends_the_walk
                    pinned_turns_are_looked_at_from_anywhere
                }
                objects {
                    equal_content_is_stored_once
                    unindexed_content_of_another_process_is_not_stored_again
                    one_content_in_two_entries_of_a_step_is_stored_once
                    every_kind_is_found_by_its_hash_at_any_time
                    an_object_is_found_while_it_is_being_indexed
                    an_object_that_was_brought_and_not_used_is_not_kept
                    the_beginning_of_an_id_is_enough_where_only_one_begins_so
                    a_beginning_that_many_share_finds_all_of_them
                    who_asks_for_no_id_gets_none
                    what_is_no_text_is_stored_byte_by_byte
                }
                commits {
                    head_and_stage_move_together
                    a_task_is_sealed_once
                    sealers_of_one_project_make_one_line_of_commits
                    commits_are_found_by_project_type_and_place
                    work_that_was_given_up_is_kept_as_such
                    tasks_that_lie_idle_are_found
                }
                search {
                    all_words_must_be_there_in_any_order
                    a_word_is_a_whole_word_unless_a_star_follows
                    a_query_without_words_finds_nothing
                    words_of_many_scripts_are_found
                    scripts_without_spaces_are_found_by_any_part
                    a_word_may_begin_where_one_script_meets_another
                    capitals_are_found_in_every_alphabet
                    a_word_finds_itself_even_where_lower_case_is_longer
                    words_with_marks_inside_are_found
                    what_was_never_said_is_not_found
                    a_search_goes_on_where_a_page_ended
                    every_kind_of_record_is_searched
                    the_newest_comes_first_and_no_more_than_asked
                    a_word_in_thousands_of_rows_is_found_wherever_it_stands
                    what_was_said_before_a_restart_is_found_after_it
                    what_another_process_says_is_found_at_once
                }
                upkeep {
                    a_healthy_store_has_no_findings
                    repairing_a_healthy_store_changes_nothing_of_it
                    a_store_that_is_being_written_has_no_findings
                    collecting_removes_nothing_that_is_needed
                    health_counts_what_is_there
                }
            }
        }
    };
}

conformance!(sqlite, crate::Sqlite);
