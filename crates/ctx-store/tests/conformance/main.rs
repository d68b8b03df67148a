//! What every store must do, whichever database it uses.
//!
//! A case is a function of a [`Backend`]; it sees the store only through the harness. The last
//! lines of this file run all cases against each database.

#[path = "../harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the SQLite tests use the rest of it")]
mod harness;

mod atomic;
mod commits;
mod context;
mod deletion;
mod feed;
mod idempotency;
mod identities;
mod import;
mod inbox;
mod interface;
mod leases;
mod maintenance;
mod objects;
mod outbox;
mod paging;
mod postgres_backend;
mod refusals;
mod runs;
mod schedules;
mod search;
mod sessions;
mod short_ids;
mod sqlite_backend;
mod steps;
mod store_copy;
mod story;
mod suspensions;
mod task_rules;
mod tokens;
mod turns;
mod unknown_ids;
mod usage;
mod values;

use harness::{Calls, StoreHandle};

/// A database with one store in it that belongs to one test.
trait Backend: Sized + Send + Sync {
    /// An empty store of the project [`harness::PROJECT`].
    async fn fresh() -> Self;

    /// One more handle on the same store, as another process would open it.
    async fn open(&self) -> StoreHandle;

    /// Another store that holds a copy of everything in this one, of which `store` is a handle.
    async fn copy(&self, store: &StoreHandle) -> Self;

    /// The methods that were called through the handles of this store.
    fn calls(&self) -> &Calls;
}

macro_rules! tests {
    ($backend:ty; $($module:ident { $($(#[$attribute:meta])* $case:ident)+ })+) => {$(
        mod $module {
            use crate::Backend;
            $($(#[$attribute])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                crate::$module::$case(&<$backend>::fresh().await).await;
            })+
        }
    )+};
}

macro_rules! conformance {
    ($name:ident, $backend:ty) => {
        mod $name {
            tests! { $backend;
                short_ids {
                    sessions_are_found_by_the_beginning_of_either_half
                    a_short_id_is_the_shortest_unique_beginning
                    other_records_are_found_by_the_beginning_of_their_id
                    a_session_gets_another_label_and_keeps_the_old_one_as_an_alias
                    sessions_of_a_directory_are_listed_by_activity
                }
                sessions {
                    a_created_session_reads_back_in_full
                    an_unknown_label_or_id_finds_no_session
                    a_label_in_use_is_refused_and_its_session_is_unchanged
                    of_fifty_concurrent_creations_one_gets_the_label
                    a_refused_rule_changes_no_session
                    an_empty_decision_changes_nothing
                    sessions_are_listed_by_their_newest_activity
                    a_list_shows_the_same_views_as_single_reads
                    writes_are_visible_to_other_handles_and_after_reopening
                }
                identities {
                    a_session_of_a_channel_goes_on_when_its_sender_is_known
                    the_longer_session_receives_the_messages_of_two_merged_entities
                    an_address_belongs_to_one_entity
                    an_alias_names_a_session_and_never_another_alias
                    fifty_first_messages_during_a_link_reach_one_session
                    two_concurrent_merges_leave_one_entity
                    messages_during_a_merge_are_in_one_of_the_two_sessions
                }
                schedules {
                    a_schedule_is_first_seen_once
                    the_last_tick_never_goes_back
                }
                tokens {
                    a_token_is_found_by_its_hash_until_it_is_removed
                }
                atomic {
                    a_missing_blob_undoes_the_whole_decision
                    a_missing_body_undoes_the_whole_decision
                    one_failing_write_of_sixty_four_fails_alone
                    refused_writes_do_not_affect_concurrent_ones
                    a_decision_of_one_event_is_stored
                    events_are_numbered_without_gaps
                    a_decision_of_several_megabytes_is_stored_completely
                }
                steps {
                    two_hundred_concurrent_steps_form_one_chain
                    steps_read_back_as_they_were_observed
                    steps_are_paged_from_any_position
                    a_task_is_found_by_its_id_open_or_ended
                    files_of_a_task_are_in_the_view_for_sealing
                    the_narrative_lists_the_notes_of_a_time_range
                    the_narrative_limit_counts_notes_and_not_steps
                }
                turns {
                    a_turn_reads_back_as_written
                    a_turn_under_a_head_that_moved_is_refused
                    fifty_concurrent_turns_form_one_chain
                    turns_are_listed_newest_first_up_to_the_limit
                    an_unknown_head_is_not_found
                    a_fork_shares_its_ancestors_and_copies_nothing
                    a_fork_of_an_unknown_turn_is_not_created
                    the_turns_since_a_task_began_are_counted
                    one_turn_in_two_sessions_is_one_object
                    the_common_ancestor_is_found_at_any_depth
                    a_long_path_between_other_turns_is_read_in_order
                    a_read_ends_after_its_messages_or_bytes
                    a_fork_point_is_any_turn_with_the_root_of_a_head
                }
                context {
                    a_compaction_reads_back_and_ends_the_context
                    pinned_turns_are_in_the_context_from_anywhere
                }
                objects {
                    equal_content_is_stored_once
                    content_of_another_handle_is_not_stored_again
                    one_content_in_two_entries_of_a_step_is_stored_once
                    every_kind_of_object_is_found_by_its_hash
                    an_object_is_found_while_the_indexes_catch_up
                    an_unused_object_is_not_stored
                    a_unique_prefix_resolves_to_one_object
                    a_shared_prefix_resolves_to_every_match
                    a_limit_of_zero_resolves_nothing
                    binary_content_reads_back_byte_for_byte
                }
                commits {
                    sealing_moves_the_project_head_and_closes_the_task
                    a_task_is_sealed_once
                    concurrent_seals_of_a_project_form_one_chain
                    commits_are_filtered_by_project_type_and_position
                    an_abandoned_task_is_sealed_as_abandoned
                    idle_tasks_are_found
                }
                search {
                    every_word_must_occur_in_any_order
                    a_word_matches_whole_words_unless_a_star_follows
                    a_query_without_words_finds_nothing
                    words_of_many_scripts_are_found
                    scripts_without_spaces_match_any_part
                    a_word_may_begin_where_the_script_changes
                    search_ignores_case_in_every_alphabet
                    a_word_whose_lower_case_is_longer_is_found
                    words_with_punctuation_inside_are_found
                    field_names_and_labels_are_not_searched
                    search_pages_neither_repeat_nor_omit_hits
                    every_kind_of_record_is_searched
                    equal_hits_are_newest_first_up_to_the_limit
                    a_turn_is_one_hit_with_its_task
                    a_task_without_turns_is_a_hit_of_its_own_kind
                    outputs_of_any_size_are_searched_up_to_a_bound
                    filters_limit_a_search
                    identifiers_phrases_and_expressions_match
                    a_misspelt_word_is_corrected_if_nothing_is_found
                    relevance_and_recency_rank_the_hits
                    a_session_is_searched_with_what_it_inherited
                    new_steps_of_a_task_are_found_with_the_old_ones
                    a_rare_word_is_found_among_many_rows
                    words_are_found_after_reopening
                    words_of_another_handle_are_found
                }
                inbox {
                    a_waiting_message_reads_back_as_it_was_sent
                    every_queue_mode_takes_its_place
                    a_steering_message_goes_into_the_run_that_checkpoints_it
                    messages_over_the_cap_are_dropped_as_the_policy_says
                    waiting_messages_are_edited_moved_and_withdrawn
                    a_picture_is_stored_with_the_message_that_shows_it
                    collected_messages_become_one_turn
                    concurrent_first_messages_create_one_session
                    a_question_holds_its_message_until_the_choice
                    held_delivery_keeps_messages_and_refused_delivery_takes_none
                }
                runs {
                    a_run_reads_back_as_the_rule_opened_it
                    drafts_read_back_in_the_order_of_their_checkpoints
                    a_writer_with_an_old_fence_fails_and_changes_nothing
                    of_twenty_ends_of_one_run_one_succeeds
                    a_run_that_is_cut_off_leaves_its_drafts_as_a_turn
                    a_message_interrupts_a_run_of_another_handle
                    an_agent_session_follows_the_turns_it_has_seen
                    a_run_compacts_its_context_under_the_head_it_saw
                    a_retry_runs_the_last_message_under_its_parent
                    events_of_a_run_reach_the_feed_in_order
                    a_failed_run_leaves_its_error_in_the_turn
                    work_that_a_run_observes_is_stored_with_its_blobs
                }
                suspensions {
                    a_suspension_survives_reopening_and_resumes_the_turn
                    a_suspension_is_answered_once
                    cancelling_releases_every_suspension
                    a_message_can_answer_or_release_a_suspension
                    waiting_sessions_are_listed_as_waiting
                    answers_of_an_earlier_run_are_not_given_to_a_later_one
                    answers_are_told_apart_by_run_and_not_by_time
                }
                outbox {
                    a_row_reads_back_as_the_rule_sent_it
                    rows_are_filtered_and_paged_newest_first
                    of_one_recipient_only_the_oldest_row_is_claimed
                    twenty_claims_at_once_take_each_row_once
                    a_claim_ends_with_its_lease_or_with_its_process
                    a_dead_row_blocks_nothing_and_is_retried
                    rows_of_other_channels_are_not_claimed
                    rows_are_deleted_with_their_session_or_long_after_their_delivery
                    a_run_keeps_what_it_has_to_answer
                }
                idempotency {
                    the_same_key_gets_the_same_answer_and_is_done_once
                    an_answer_that_is_too_old_for_its_request_is_replaced
                    a_key_with_another_request_is_refused
                    of_twenty_requests_with_one_key_one_is_done
                    a_request_that_failed_leaves_its_key_free
                    a_key_is_kept_for_a_week
                    creating_a_session_takes_a_key_too
                    a_request_that_changed_nothing_keeps_its_key
                }
                deletion {
                    a_deleted_session_is_gone_at_once
                    a_session_is_deleted_from_any_state
                    forks_keep_the_turns_they_share
                    search_hides_deleted_turns_unless_a_session_shares_them
                    turns_that_were_rewound_go_with_their_session
                    a_turn_that_two_sessions_wrote_survives_one_of_them
                    a_long_history_is_purged_in_several_batches
                    gc_removes_unreferenced_blobs_after_the_grace
                    the_feed_keeps_the_events_of_deleted_sessions
                }
                usage {
                    usage_is_the_sum_of_all_turns_by_every_key
                    names_and_numbers_of_any_size_are_counted
                    calls_of_tools_are_counted_and_forgotten
                    a_turn_counts_once_and_is_forgotten_with_its_session
                }
                import {
                    an_imported_session_reads_back_in_full
                    imported_turns_that_are_known_are_shared
                    a_turn_without_its_words_is_imported_as_purged
                    an_import_without_its_blob_leaves_nothing
                    a_session_is_brought_forward_from_the_head_it_has
                    imported_tasks_bring_their_commits_in_order
                    an_open_task_is_handed_over_and_verified
                }
                feed {
                    an_empty_feed_has_no_events
                    a_decision_names_its_place_in_the_feed
                    feeds_are_paged_from_any_event
                    eight_concurrent_writers_lose_no_event
                }
                leases {
                    a_node_is_dead_once_its_lease_has_run_out
                    a_node_without_sessions_is_not_taken_over
                    a_node_that_owns_a_session_stays_until_it_is_taken_over
                    an_owner_that_never_registered_is_dead
                    sessions_with_messages_to_deliver_are_unattended
                    a_worker_is_unattended_until_its_manager_was_told
                    sessions_without_activity_are_idle
                }
                paging {
                    sessions_are_paged_in_the_order_of_their_activity
                    a_page_of_sessions_has_at_most_one_more_than_the_maximum
                    sessions_are_filtered_by_status_project_words_and_parent
                    tasks_of_a_session_are_paged_newest_first
                    head_moves_are_paged_newest_first
                    turns_are_paged_by_depth
                    a_tree_lists_every_branch_oldest_first
                    commits_steps_and_notes_are_paged
                    files_written_are_listed_by_name
                    a_page_of_files_is_the_beginning_of_the_list
                    search_pages_of_one_hit_repeat_nothing
                    filters_and_pages_combine
                    the_largest_limit_is_no_limit
                }
                values {
                    every_text_of_a_session_reads_back
                    labels_of_every_script_and_of_full_length_are_found
                    every_text_of_a_turn_reads_back
                    the_longest_texts_are_taken_and_longer_ones_refused
                    every_text_of_a_run_and_its_suspension_reads_back
                    every_byte_reads_back_at_every_size
                    tokens_are_bounded_and_their_names_read_back
                }
                refusals {
                    every_refused_rule_leaves_the_store_as_it_was
                    a_session_with_a_damaged_history_refuses_messages
                    concurrent_writes_of_which_some_are_refused_keep_the_others
                    a_failing_change_undoes_the_changes_before_it
                }
                task_rules {
                    every_state_of_a_task_reads_back
                    every_type_of_commit_is_stored_and_found
                    questions_after_a_pause_are_stored_and_answered
                    a_task_without_work_is_dropped_without_a_commit
                    archived_sessions_are_readable_and_return_with_a_message
                }
                story {
                    the_story_reads_the_same_from_every_handle_and_copy
                    every_method_is_called_and_every_change_written
                }
                store_copy {
                    a_copy_reads_the_same_in_every_database
                    a_copy_goes_on_where_the_source_was
                    a_target_with_rows_is_refused_unless_it_is_merged
                    a_second_merge_adds_nothing
                    a_merge_adds_what_is_missing_and_changes_nothing
                    a_label_in_use_is_not_taken_over
                    the_history_of_a_project_does_not_branch
                    a_store_in_use_is_copied_as_it_was_at_one_moment
                }
                unknown_ids {
                    lists_of_unknown_ids_are_not_found
                    single_reads_of_unknown_ids_return_nothing
                    every_list_of_an_empty_store_is_empty
                }
                maintenance {
                    verify_finds_nothing_in_an_intact_store
                    repairing_an_intact_store_changes_nothing
                    verify_finds_nothing_while_writers_run
                    gc_removes_no_referenced_blob
                    health_counts_every_kind
                }
            }
        }
    };
}

conformance!(sqlite, crate::sqlite_backend::Sqlite);
conformance!(postgres, crate::postgres_backend::Postgres);
