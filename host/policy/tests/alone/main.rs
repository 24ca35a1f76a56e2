//! Tests that need a process to themselves: it is run again as the child that compiles, and its memory is measured.
//! They run one after the other, without a harness, whose threads would be measured, too.

mod child;
mod flat;
#[path = "../all/guest.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod guest;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == policy::compile_child::ARGUMENT) {
        return policy::compile_child::main();
    }
    child::an_upload_is_compiled_elsewhere_and_serves();
    child::what_is_no_component_is_refused_with_the_reason();
    child::too_much_memory_ends_the_child();
    child::too_much_time_ends_the_child();
    flat::five_hundred_reloads_leave_nothing_behind();
    ExitCode::SUCCESS
}
