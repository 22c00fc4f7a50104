//! Sending by the kernel (kTLS), tested where there is a kernel with `tls`: in a user-mode Linux guest.
//!
//! Started as any test, this program boots the guest with itself as what the guest runs, and reports what that
//! reported. Inside, the cases run one after the other, because they share the guest's kernel counters and modules.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, reason = "this is the test harness")]

mod bodies;
mod doctor;
mod early;
mod guest;
mod http2;
mod kernel;
mod key_updates;
mod lives;
mod modules;
mod outlets;
mod runner;
mod traced;

use runner::Case;

/// In order: the first ones find a kernel without modules, and load them.
const CASES: &[Case] = &[
    ("without_the_module_auto_serves_from_user_space", modules::auto_without_tls),
    ("without_the_module_on_says_what_to_do", modules::on_without_tls),
    ("without_ciphers_auto_serves_from_user_space", modules::auto_without_ciphers),
    ("without_ciphers_on_says_what_to_do", modules::on_without_ciphers),
    ("a_module_loaded_later_counts_after_a_reload", modules::reload_after_loading),
    ("bodies_are_exact_in_both_versions_with_all_three_ciphers", bodies::every_version_and_cipher),
    ("curl_gets_exact_bodies_in_both_versions_with_all_three_ciphers", bodies::curl),
    ("http2_bodies_are_exact_in_both_versions_with_all_three_ciphers", http2::every_version_and_cipher),
    ("http2_streams_at_once_are_exact", http2::many_streams),
    ("http2_frames_leave_together_from_the_mapped_file", http2::traced_frames),
    ("a_slow_http2_client_gets_every_byte", http2::slow_client),
    ("a_file_truncated_under_way_ends_its_http2_stream_and_no_other", http2::truncated),
    ("an_http2_client_that_stops_is_given_up", http2::client_that_stops),
    ("one_and_many_ranges_are_exact", bodies::ranges),
    ("pipelined_requests_are_answered_in_order", bodies::pipelined),
    ("a_request_in_the_same_segment_as_finished_is_served", bodies::request_behind_finished),
    ("a_slow_reader_gets_every_byte", bodies::slow_reader),
    ("buffers_smaller_than_a_record_do_not_stall", bodies::small_socket_buffers),
    ("a_hundred_connections_at_once_are_all_kernel", bodies::a_hundred),
    ("early_data_is_answered_by_the_kernel", early::answered_by_the_kernel),
    ("auto_counts_what_it_chose", bodies::auto),
    ("the_doctor_measures_the_kernel", doctor::finds_the_kernel),
    ("a_key_update_without_a_request_changes_nothing", key_updates::not_requested),
    ("a_requested_key_update_ends_an_idle_connection_cleanly", key_updates::while_idle),
    ("a_requested_key_update_lets_the_response_finish", key_updates::within_a_response),
    ("openssl_can_ask_for_key_updates", key_updates::openssl),
    ("a_storm_of_key_updates_is_cut_off", key_updates::storm),
    ("a_client_that_leaves_within_a_body_is_no_fault_of_the_server", lives::abort),
    ("a_file_truncated_under_way_cuts_the_response", lives::truncated),
    ("a_reload_keeps_kernel_connections", lives::reload),
    ("a_drain_lets_the_response_finish", lives::drain),
    ("a_body_is_never_read_or_mapped", traced::no_copies),
    ("a_relayed_body_is_spliced_and_never_read", traced::relayed_body),
    ("an_outlet_enters_the_kernel_between_two_responses", outlets::enters_between_responses),
    ("an_outlet_enters_the_kernel_between_two_batches_of_frames", outlets::enters_between_batches),
    ("what_is_sealed_already_leaves_before_the_kernel_takes_over", outlets::waits_for_what_is_sealed),
    ("nothing_is_lost_when_the_socket_is_closed_at_once", outlets::loses_nothing_at_close),
    ("a_body_from_a_socket_is_spliced", outlets::splices),
    ("files_that_never_change_may_be_sent_without_a_copy", outlets::immutable_files),
    ("worn_out_keys_end_the_connection", outlets::worn_out),
    ("no_record_failed_to_decrypt", kernel::no_decrypt_errors),
];

fn main() -> std::process::ExitCode {
    if std::env::var_os("PENSTOCK_GUEST").is_some() { runner::run(CASES) } else { guest::boot(CASES) }
}
