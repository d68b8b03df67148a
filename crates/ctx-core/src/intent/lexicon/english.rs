//! English markers.

use super::{List, Mark};

/// English phrases that carry an intent.
pub(super) const LISTS: &[List] = &[
    (
        Mark::YES,
        "yes, yep, yeah, yup, yea, ya, aye, sure, ok, okay, k, kk, okey, alright, all right, \
        of course, \
        absolutely, definitely, certainly, indeed, right, correct, agreed, affirmative, \
        yes please, sure thing, \
        👍, 👌, 🆗, y",
    ),
    (
        Mark::CONTINUE,
        "yes do it, go ahead, do it, go for it, please do, make it so, lets do it, lets do that, \
        do that",
    ),
    (
        Mark::NO,
        "no, nope, nah, naw, no way, not really, negative, wrong, thats wrong, no good, \
        not good, no thanks, \
        no thank you, not yet, n, 👎, ❌, 🚫",
    ),
    (
        Mark::APPROVE,
        "looks good, look good, looking good, looks good to me, lgtm, sgtm, sounds good, \
        perfect, perfectly, \
        ship it, shipit, done, all done, were done, we are done, im done here, good, great, \
        excellent, awesome, \
        amazing, nice, neat, sweet, cool, fantastic, brilliant, wonderful, beautiful, superb, \
        lovely, terrific, \
        splendid, fine, works, worked, it works, works for me, works now, working, well done, \
        good job, great job, \
        nice job, good work, great work, nice work, good to go, good enough, all good, im happy, \
        im happy with it, \
        im happy with that, i like it, i love it, like it, love it, approved, approve, \
        i approve, accept, \
        accepted, i accept, confirm, confirmed, i confirm, merge it, merge, mark it done, \
        mark it as done, \
        mark as done, mark it complete, mark it as complete, close it, close the task, complete, \
        completed, \
        finished, its finished, thats all, thats all for now, thats it, that is all, \
        that will do, thatll do, \
        nothing else, no more changes, no changes, no changes needed, no other changes, \
        no further changes, \
        no issues, not bad, no complaints, as expected, what i wanted, what i needed, \
        what i asked for, exactly, \
        spot on, leave it as is, leave it as it is, leave it like that, leave it like this, \
        keep it as is, \
        keep it like that, on point, ✅, ☑, ✔, 🎉, 💯, 🚢",
    ),
    (
        Mark::THANKS,
        "thanks, thank you, thank u, thx, thanx, tnx, ty, tysm, cheers, much appreciated, \
        appreciated, \
        i appreciate it, appreciate it, and thanks, and thank you, many thanks, thanks a lot, \
        thanks so much, \
        thanks again, thanks for now, thank you again, thanks for your help, \
        thanks for the help, great help, 🙏, \
        ❤",
    ),
    (Mark::ACKNOWLEDGE, "no problem, no worries, got it, understood, i see"),
    (
        Mark::ABANDON,
        "never mind, nevermind, nvm, cancel, cancel it, cancel that, cancel this, \
        cancel everything, \
        cancel all of it, cancel the task, cancel this task, cancel the whole thing, stop, \
        stop it, stop that, \
        stop this, stop here, stop there, stop right there, stop the task, stop this task, \
        stop everything, \
        stop working, stop working on this, stop working on it, stop work, stop immediately, \
        forget it, \
        forget that, forget this, forget about it, forget about that, forget about this, \
        forget the whole thing, \
        forget i asked, forget the task, drop it, drop that, drop this, drop the task, \
        drop this task, \
        drop the whole thing, abort, abort it, abort that, abort this, abort the task, \
        abort this task, \
        abort mission, scrap it, scrap that, scrap this, scrap the whole thing, scrap the task, \
        leave it, \
        leave it alone, leave it be, quit, quit it, abandon, abandon it, abandon this, \
        abandon that, \
        abandon the task, abandon this task, halt, give up, i give up, lets give up, give it up, \
        call it off, \
        dont bother, lets stop, lets stop here, we can stop, we can stop here, you can stop, \
        you can stop here, \
        you can stop now, id like to cancel, i want to cancel, i want to stop, \
        i want you to stop, lets cancel, \
        lets cancel it, lets cancel this, lets forget it, lets drop it, lets scrap it, lets \
        abandon it",
    ),
    (
        Mark::EXCUSE,
        "i figured it out, i fixed it, i fixed it myself, ill do it, ill do it myself, \
        i will do it myself, \
        i did it myself, i dont need it, i dont need it anymore, i dont need this, \
        i dont need this anymore, \
        i dont need that anymore, we dont need it, we dont need it anymore, we dont need this, \
        we dont need this anymore, not needed, no longer needed, its not needed, \
        its no longer needed, \
        not needed anymore, i changed my mind, changed my mind, not worth it, its not worth it, \
        it is not worth it, not important, its not important, my mistake, my bad",
    ),
    (
        Mark::CONTINUE,
        "continue, go on, keep going, carry on, proceed, resume, keep at it, keep working, \
        keep on, move along, \
        please continue, next, try again, retry, once more, correct it, correct that, \
        correct this, complete it, \
        complete that, complete this, finish it, finish that, finish this, please confirm, \
        confirm please, \
        please complete, complete please, please finish, please correct, one more time",
    ),
    (
        Mark::HESITATE,
        "hm, hmm, hmmm, mm, mmm, uh, uhh, um, umm, er, erm, eh, huh, uhm, wait, wait a minute, \
        wait a second, \
        wait a sec, hold on, hang on, one moment, one second, one sec, just a moment, \
        just a second, a moment, \
        give me a moment, give me a second, let me think, 🤔",
    ),
    (Mark::DOUBT, "not sure, im not sure, i dont know, dunno, idk, maybe, perhaps, 🤷"),
    (
        Mark::GREET,
        "hi, hello, hey, hiya, yo, good morning, good evening, good afternoon, hi there, \
        hello there, hey there, \
        👋",
    ),
    (
        Mark::FILLER,
        "please, pls, plz, it, its, it is, that, thats, that is, this, this is, these, those, \
        they, theyre, here, \
        there, now, then, just, actually, so, very, really, pretty, quite, super, totally, all, \
        everything, is, \
        are, was, looks, look, seems, looking, is all, to me, for me, by me, with me, too, much, \
        a lot, so much, \
        very much, man, mate, dude, buddy, guys, bro, oh, ah, wow, well, yay, oops, sorry, ha, \
        haha, lol, \
        for your help, for the help, for that, for this, i, im, think, i think, i guess, i mean, \
        i said, ok then, \
        okay then, right now, at once, immediately, already, for everything, you, guess, \
        honestly, truly, simply, \
        in that case, if you can, kindly, bye, goodbye, see you",
    ),
];

/// English phrases that form requests and questions.
pub(super) const SHAPES: &[List] = &[
    (
        Mark::TIE,
        "also, but, and, instead, however, plus, except, additionally, furthermore, moreover, \
        although, though, \
        rather, still, or, then, while youre at it, while you are at it, in addition, as well, \
        one more thing, \
        one thing, another thing",
    ),
    (Mark::JOIN, "and, then, but, so, and then, also, and also, but also"),
    (
        Mark::TOPIC,
        "new task, next task, another task, different task, a new task, a different task, \
        a different topic, \
        different topic, new topic, another topic, change of topic, new subject, \
        different subject, unrelated, \
        unrelated to this, unrelated question, unrelated request, unrelated task, \
        on an unrelated note, \
        on a different note, on another note, something else, something different, \
        something completely different, \
        completely different thing, a completely different thing, something new, \
        something unrelated, \
        completely different, separate task, separately, new project, new request, new job, \
        different question, \
        totally unrelated, completely unrelated, off topic, lets start something new",
    ),
    (
        Mark::MOVE_ON,
        "lets move on, move on to, moving on, moving on to, lets switch to a different, \
        lets switch to another, \
        switching gears, switch gears, lets switch gears, switching topics, switching topic, \
        lets change topic, \
        lets change the topic, lets change the subject, changing topics, changing the subject, \
        changing subject, \
        lets do something else, lets work on something else, lets start a new task, start a new \
        task, \
        start a new project, in a new task, can we do something else, \
        can we work on something else, \
        can we talk about something else, could we do something else, lets start something new, \
        lets start on something else, i want to work on something else, i want to do something \
        else, \
        i have a new task, i have another task, i have a different task, i need something else, \
        time for something else, for something else, for something completely different, \
        here is a new task, \
        heres a new task, heres another task, heres the next task, new task for you, \
        now for something else, \
        now for something completely different",
    ),
    (
        Mark::NOW,
        "now, now lets, lets now, now please, now please lets, now i want you to, now i want to, \
        now i need you to, now we need to, now id like you to, now you can, now can you, \
        now could you, \
        now go and, next, next lets, now go ahead and",
    ),
    (
        Mark::REQUEST,
        "add, build, create, implement, write, make, design, set up, setup, introduce, develop, \
        refactor, fix, \
        migrate, port, update, change, convert, replace, remove, delete, rename, move, use, \
        turn, put, set, \
        increase, decrease, reduce, optimize, optimise, integrate, support, generate, rewrite, \
        extract, split, \
        merge, bump, upgrade, downgrade, install, configure, enable, disable, handle, clean up, \
        document, test, \
        do, try, run, commit, push, deploy, revert, undo, redo, drop, keep, let, ensure, wrap, \
        expose, hide, \
        format, sort, prepare, draft, work on, look into, investigate, start, include, adjust, \
        limit, allow, log, \
        cache, validate, parse, simplify, improve, apply, switch, bring, insert, swap, correct, \
        help me, lets",
    ),
    (
        Mark::MAKE,
        "add, build, create, implement, write, make, design, set up, setup, introduce, develop, \
        refactor, fix, \
        migrate, port, integrate, generate, work on, start on, look into, investigate, optimize, \
        optimise, draft, \
        rewrite, help me",
    ),
    (
        Mark::ASK_SURE,
        "why, whys, whats, hows, wheres, whos, how come, how do i, how do you, how does, how is, \
        what is, \
        what are, what does, what do, what did, what was, what happens, where is, where are, \
        where did, who is, \
        which one is, how much, how many, how long, how to",
    ),
    (
        Mark::ASK,
        "what, whats, why, whys, how, hows, when, where, wheres, who, whos, which, whose, how come",
    ),
    (
        Mark::ASK_FAR,
        "what do you mean, what does that mean, what does this mean, whats that, what is that, \
        what do you think, \
        i dont understand, i do not understand, i dont get it, im confused, im not following, \
        what happened, \
        what did you do, what did you change, whats going on, whats left, whats the status, \
        how far are you, \
        how is it going, hows it going, are you done, did it work, what now, whats next, how so",
    ),
    (
        Mark::ASK_VERB,
        "is, are, was, were, does, do, did, has, have, had, will, would, should, can, could, am, \
        any, isnt, arent, \
        doesnt, didnt, wasnt, wont, havent, hasnt, may, might, must, really",
    ),
    (
        Mark::POLITE,
        "can you, could you, would you, will you, can we, could we, can u, could u, cant you, \
        couldnt you, \
        wont you, would it be possible to, is it possible for you to, you could, do you mind, \
        may i ask you to, \
        i want you to, i need you to, id like you to, please, we should, you should, i want, \
        i need, id like",
    ),
    (
        Mark::SUGGEST,
        "why dont we, why dont you, why not, how about, what about, what if we, what if you, \
        shouldnt we, \
        shouldnt it, shouldnt this, shouldnt that, shouldnt you, shouldnt the, should we not, \
        wouldnt it be better, why cant we just, couldnt this, couldnt that, couldnt it",
    ),
    (
        Mark::EXPLAIN,
        "show me, show us, show the code, show the diff, show the plan, show the output, \
        show the result, \
        show the results, show the changes, show the file, show the files, show the log, \
        show the logs, \
        show the status, show your work, show diff, show code, show plan, show changes, \
        show status, explain, \
        tell me, describe, summarize, summarise, recap, walk me through, list the, list all, \
        clarify, elaborate, \
        remind me, give me a summary, give me an overview, give me the status, \
        give me an update, let me see, \
        help me understand, give me more context, give me more details, give me details, \
        give me more information, \
        give me an example, give me the details, i want to know, i wonder, im wondering, \
        just curious, \
        id like to know, i want to see, id like to see, i want to understand, teach me",
    ),
    (
        Mark::STATUS,
        "status, status update, status report, progress, progress report, any progress, \
        any news, any update, \
        any updates, eta, the diff, the logs, summary, the status, current status, details",
    ),
    (
        Mark::OPENER,
        "ok, okay, k, alright, all right, please, pls, plz, just, actually, so, oh, ah, wow, \
        well, yay, oops, \
        sorry, hey, then, kindly, simply, honestly, ok then, okay then, in that case, \
        if you can, man, dude, mate, \
        i think, i guess, i mean",
    ),
    (
        Mark::DEICTIC,
        "it, that, this, those, these, them, its, same, again, that one, this one, there, back, \
        instead, also, \
        too, as well",
    ),
    (
        Mark::SUPPORT,
        "test, tests, unit tests, docs, documentation, doc, comments, comment, changelog, \
        readme, docstrings, \
        docstring, error handling, logging, the test, the tests, the docs, the readme, \
        some tests, a test, \
        more tests",
    ),
    (
        Mark::PLACE,
        "in the readme, in the docs, in the documentation, in a comment, in comments, \
        in the comments, in the ui, \
        in the changelog, in the commit message, in the header, in the footer, on the page, \
        on the screen",
    ),
    (
        Mark::STEP,
        "the next step, the next phase, the next part, the next item, the next point, \
        the next file, the next one, \
        to the next step, to the next phase, to the next part, to the next item, \
        to the next point, \
        to the next file, to the next one, step, phase, part, to step, to phase, to part, \
        next step, with it, \
        with this, with that",
    ),
    (Mark::TOPIC_LINK, "is to, is, for you, to, would be to, i want, i need, id like"),
];
