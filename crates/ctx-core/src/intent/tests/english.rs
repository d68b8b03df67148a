//! English messages, by requirement.

use super::{ASK, CUT, END, OLD, OUT, RUN, check};
use super::{Abandon, Clarification, Confirmation, Modification, NewTask, Response, Unclear};

#[test]
fn nearly_anything_answers_a_question() {
    check(&[
        // R64, R65, R66
        ("yes", ASK, Response),
        ("Yes", ASK, Response),
        ("Option B", ASK, Response),
        ("Use exponential", ASK, Response),
        ("5", ASK, Response),
        ("no", ASK, Response),
        ("ok", ASK, Response),
        ("the second one", ASK, Response),
        ("both", ASK, Response),
        ("done", ASK, Response),
        ("looks good", ASK, Response),
        ("👍", ASK, Response),
        ("whatever you think is best", ASK, Response),
        ("when the tests pass", ASK, Response),
        ("what you suggested", ASK, Response),
        ("exponential?", ASK, Response),
        ("yes?", ASK, Response),
        ("yes, but what does that change?", ASK, Response),
        ("Exponential. Does that work with jitter?", ASK, Response),
        ("can you use exponential?", ASK, Response),
        ("what about exponential?", ASK, Response),
        ("continue", ASK, Response),
        ("do both, and add tests", ASK, Response),
        ("Now add pooling", ASK, Response),
        ("stop the server first", ASK, Response),
        ("cancel the old request", ASK, Response),
        ("yes, cancel it", ASK, Response),
        ("no, don't stop", ASK, Response),
        ("A", ASK, Response),
        ("1.5 seconds", ASK, Response),
        ("src/main.rs", ASK, Response),
        ("thanks, use B", ASK, Response),
        ("I think so", ASK, Response),
        ("that", ASK, Response),
    ]);
}

#[test]
fn a_waiting_task_can_be_left_or_asked_back() {
    check(&[
        ("never mind", ASK, Abandon),
        ("cancel", ASK, Abandon),
        ("no, never mind", ASK, Abandon),
        ("ok stop", ASK, Abandon),
        ("forget it, I'll do it myself", ASK, Abandon),
        ("new task: write a parser", ASK, NewTask),
        ("Different topic... how is the build?", ASK, NewTask),
        ("let's move on to the parser", ASK, NewTask),
        ("what do you mean?", ASK, Clarification),
        ("What do you mean", ASK, Clarification),
        ("why?", ASK, Clarification),
        ("Which one do you recommend?", ASK, Clarification),
        ("is there a difference?", ASK, Clarification),
        ("show me the code", ASK, Clarification),
        ("can you explain option B?", ASK, Clarification),
        ("I don't understand", ASK, Clarification),
        ("hmm", ASK, Unclear),
        ("...", ASK, Unclear),
        ("?", ASK, Unclear),
        ("", ASK, Unclear),
        ("yes no", ASK, Unclear),
        ("wait", ASK, Unclear),
    ]);
}

#[test]
fn pure_approval_confirms() {
    check(&[
        // R64, R68
        ("yes", END, Confirmation),
        ("Looks good", END, Confirmation),
        ("looks good to me!", END, Confirmation),
        ("Perfect", END, Confirmation),
        ("Perfect, thanks!", END, Confirmation),
        ("Ship it", END, Confirmation),
        ("ship it 🚀", END, Confirmation),
        ("done", END, Confirmation),
        ("Done.", END, Confirmation),
        ("lgtm", END, Confirmation),
        ("LGTM!!", END, Confirmation),
        ("👍", END, Confirmation),
        ("👍🏽", END, Confirmation),
        ("✅", END, Confirmation),
        ("✔️", END, Confirmation),
        ("ok", END, Confirmation),
        ("okay, great", END, Confirmation),
        ("yesss", END, Confirmation),
        ("sooo good", END, Confirmation),
        ("great work, thank you so much", END, Confirmation),
        ("that works for me", END, Confirmation),
        ("this is exactly what I wanted", END, Confirmation),
        ("Yes, that's all, thanks", END, Confirmation),
        ("no, looks good", END, Confirmation),
        ("no more changes, ship it", END, Confirmation),
        ("I'm happy with it", END, Confirmation),
        ("it works now", END, Confirmation),
        ("leave it as is", END, Confirmation),
        ("approved", END, Confirmation),
        ("yes, go ahead", END, Confirmation),
        ("nice!", END, Confirmation),
        ("Everything looks great", END, Confirmation),
        ("thanks", RUN, Confirmation),
        ("thank you!", RUN, Confirmation),
        ("ok", RUN, Confirmation),
        ("great, thanks", CUT, Confirmation),
    ]);
}

#[test]
fn approval_with_a_change_is_a_change() {
    check(&[
        // R65, R72
        ("Looks good but also add logging", END, Modification),
        ("perfect, just one thing: rename it", END, Modification),
        ("yes, and also add tests", END, Modification),
        ("looks good but", END, Modification),
        ("Looks good. Use tabs though.", END, Modification),
        ("not quite, also handle errors", END, Modification),
        ("no", END, Modification),
        ("nope", END, Modification),
        ("👎", END, Modification),
        ("not good", END, Modification),
        ("no good", END, Modification),
        ("not perfect", END, Modification),
        ("no, that's wrong", END, Modification),
        ("good, except the name", END, Modification),
        ("it works, rename foo to bar", END, Modification),
        ("almost done", END, Modification),
        ("done?", END, Clarification),
        ("looks good?", END, Clarification),
        ("perfect, but why did you use a mutex?", END, Clarification),
        ("looks good, now add it to the docs", END, Modification),
        ("continue", END, Modification),
        ("try again", END, Modification),
        ("it doesn't work", END, Modification),
        ("do it again", END, Modification),
        ("merge the branches", END, Modification),
        ("the tests are not done", END, Modification),
        ("great, can you add logging?", END, Modification),
        ("yes. Make it 5 not 3.", END, Modification),
        ("no cancel", END, Modification),
        ("hmm ok", END, Unclear),
        ("yes and no", END, Modification),
    ]);
}

#[test]
fn giving_up_is_the_whole_meaning_or_none() {
    check(&[
        // R69
        ("Never mind", RUN, Abandon),
        ("nevermind", RUN, Abandon),
        ("nvm", RUN, Abandon),
        ("Cancel", RUN, Abandon),
        ("cancel that", RUN, Abandon),
        ("Cancel it please", RUN, Abandon),
        ("Stop", RUN, Abandon),
        ("STOP!!!", RUN, Abandon),
        ("stop it", RUN, Abandon),
        ("please stop", RUN, Abandon),
        ("stop here", RUN, Abandon),
        ("forget it", RUN, Abandon),
        ("drop it", RUN, Abandon),
        ("abort", RUN, Abandon),
        ("scrap that", RUN, Abandon),
        ("leave it", RUN, Abandon),
        ("never mind, thanks", CUT, Abandon),
        ("cancel", END, Abandon),
        ("ok, forget about it", END, Abandon),
        ("never mind, I figured it out", CUT, Abandon),
        ("stop, I changed my mind", RUN, Abandon),
        ("cancel this task", RUN, Abandon),
        ("stop using tabs", RUN, Modification),
        ("cancel the previous handler when a new one starts", RUN, Modification),
        ("stop the server after the tests", RUN, Modification),
        ("drop the users table", RUN, Modification),
        ("abort on error", RUN, Modification),
        ("stop, use tabs instead", RUN, Modification),
        ("don't stop", RUN, Modification),
        ("do not cancel it", RUN, Modification),
        ("don't forget it", RUN, Modification),
        ("never mind the tests, fix the bug", RUN, Modification),
        ("forget the tests", RUN, Modification),
        ("leave it in the header", RUN, Modification),
        ("stop the job", RUN, Modification),
        ("the stop button", RUN, Modification),
        ("stop it from crashing", END, Modification),
        ("stop for now", RUN, Modification),
        ("no stop", RUN, Modification),
        ("stop?", RUN, Clarification),
        ("can you cancel?", RUN, Modification),
        ("perfect, stop here", RUN, Unclear),
    ]);
}

#[test]
fn a_new_subject_is_a_new_task() {
    check(&[
        // R70
        ("Now add pooling", RUN, NewTask),
        ("Now add pooling", END, NewTask),
        ("ok now add pooling", RUN, NewTask),
        ("Perfect, now add pooling", END, NewTask),
        ("That looks great. Now let's build a parser", END, NewTask),
        ("now can you write a parser?", RUN, NewTask),
        ("Different topic...", RUN, NewTask),
        ("new task: write a parser", RUN, NewTask),
        ("New task", RUN, NewTask),
        ("new task add pooling", RUN, NewTask),
        ("next task", END, NewTask),
        ("Great, next task: fix the login", END, NewTask),
        ("let's move on to the parser", RUN, NewTask),
        ("Let’s move on", RUN, NewTask),
        ("unrelated: what is a monad?", RUN, NewTask),
        ("something else: the login is broken", RUN, NewTask),
        ("switching gears, look at the parser", RUN, NewTask),
        ("The retry seems to work on my machine. New task: add a parser", RUN, NewTask),
        ("thanks! on a different note, write a parser", CUT, NewTask),
        ("new task buttons are too small", RUN, Modification),
        ("unrelated changes should be reverted", RUN, Modification),
        ("move on to the next step", RUN, Modification),
        ("let's move on to the next step", RUN, Modification),
        ("let's move the file", RUN, Modification),
    ]);
}

#[test]
fn what_points_at_the_work_changes_it() {
    check(&[
        // R67, R65 default
        ("Also add logging", RUN, Modification),
        ("Make it 5 not 3", RUN, Modification),
        ("Make it 5 not 3", END, Modification),
        ("and add tests", RUN, Modification),
        ("instead use a mutex", RUN, Modification),
        ("use a mutex instead", END, Modification),
        ("now make it 5", RUN, Modification),
        ("now rename it", RUN, Modification),
        ("now fix that test", RUN, Modification),
        ("now add tests", RUN, Modification),
        ("now run the tests", RUN, Modification),
        ("now it fails", RUN, Modification),
        ("now commit", END, Modification),
        ("then add a parser", RUN, Modification),
        ("try a different approach", RUN, Modification),
        ("try something else", RUN, Modification),
        ("continue", RUN, Modification),
        ("go on", CUT, Modification),
        ("keep going!", CUT, Modification),
        ("yes", CUT, Modification),
        ("go ahead", CUT, Modification),
        ("no", RUN, Modification),
        ("can you add logging?", RUN, Modification),
        ("could you make it 5?", RUN, Modification),
        ("why don't we use a channel instead?", RUN, Modification),
        ("why not use a channel?", RUN, Modification),
        ("what about error handling?", RUN, Modification),
        ("shouldn't this be 5?", RUN, Modification),
        ("the button is broken. Can you fix it?", RUN, Modification),
        ("Why did you use a mutex? Use a channel.", RUN, Modification),
        ("show me the code and fix the typo", RUN, Modification),
        ("explain it in the readme", RUN, Modification),
        ("status codes should be 404", RUN, Modification),
        ("it crashes on windows", RUN, Modification),
        ("when the tests pass, deploy it", RUN, Modification),
        ("add a retry?", RUN, Modification),
        ("asdf", RUN, Modification),
    ]);
}

#[test]
fn a_question_changes_nothing() {
    check(&[
        // R71
        ("What does that mean?", RUN, Clarification),
        ("What does that mean?", END, Clarification),
        ("Show me the code", RUN, Clarification),
        ("show me the code", END, Clarification),
        ("why did you use a mutex?", RUN, Clarification),
        ("why did you use a mutex instead of a channel?", END, Clarification),
        ("why a mutex", RUN, Clarification),
        ("status?", RUN, Clarification),
        ("status please", RUN, Clarification),
        ("status", CUT, Clarification),
        ("explain", RUN, Clarification),
        ("can you explain that?", RUN, Clarification),
        ("could you please show me the diff?", END, Clarification),
        ("thanks, what does the cache do?", END, Clarification),
        ("how does it work", RUN, Clarification),
        ("is it done?", RUN, Clarification),
        ("did you run the tests?", END, Clarification),
        ("do you cache it?", RUN, Clarification),
        ("tell me what changed", END, Clarification),
        ("I ran it and it printed 5. Is that expected?", END, Clarification),
        ("why not?", RUN, Clarification),
        ("how is it going?", RUN, Clarification),
        ("list all files you changed", END, Clarification),
    ]);
}

#[test]
fn without_a_task_a_request_starts_one() {
    check(&[
        // R80
        ("Add a retry to the client", None, NewTask),
        ("Also add logging", OLD, NewTask),
        ("Make it 5 not 3", OUT, NewTask),
        ("can you add logging?", None, NewTask),
        ("stop the server after the tests", None, NewTask),
        ("hi, please write a parser", None, NewTask),
        ("the login is broken", OLD, NewTask),
        ("thanks", OLD, Confirmation),
        ("perfect, thanks!", OLD, Confirmation),
        ("ok", None, Confirmation),
        ("👍", OLD, Confirmation),
        ("stop", None, Abandon),
        ("cancel that", OLD, Abandon),
        ("what does this repo do?", None, Clarification),
        ("show me the code", OLD, Clarification),
        ("status?", OUT, Clarification),
        ("continue", None, Unclear),
        ("continue", OLD, Unclear),
        ("go ahead", None, Unclear),
        ("no", None, Unclear),
        ("hello", None, Unclear),
        ("yes no", None, Unclear),
    ]);
}

#[test]
fn nothing_to_go_by_is_unclear() {
    check(&[
        // R82
        ("", RUN, Unclear),
        ("   \n", END, Unclear),
        ("...", RUN, Unclear),
        ("?!", END, Unclear),
        ("hmm", RUN, Unclear),
        ("hmmmmm", END, Unclear),
        ("yes no", END, Unclear),
        ("no, yes", RUN, Unclear),
        ("hello", RUN, Unclear),
        ("wait", RUN, Unclear),
        ("🤔", END, Unclear),
        ("🦀", RUN, Unclear),
        ("not sure", END, Unclear),
    ]);
}

#[test]
fn a_slip_is_mended_and_a_word_is_kept() {
    check(&[
        ("lokks good", END, Confirmation),
        ("perfct", END, Confirmation),
        ("perefct, thanks", END, Confirmation),
        ("thansk", RUN, Confirmation),
        ("excelent", END, Confirmation),
        ("nevermnd", RUN, Abandon),
        ("cacnel", RUN, Abandon),
        ("cancell", RUN, Abandon),
        ("canal", RUN, Modification),
        ("shop", RUN, Modification),
        ("shop it", END, Modification),
        ("cancer", RUN, Modification),
        ("tanks", END, Modification),
        ("prefect", END, Modification),
        ("forgot it", RUN, Modification),
        ("step", RUN, Modification),
        ("top", RUN, Modification),
        ("about", RUN, Modification),
        ("words", END, Modification),
        ("dane", END, Modification),
        ("mercy", END, Modification),
        ("god", END, Modification),
        ("cancels", RUN, Modification),
    ]);
}
