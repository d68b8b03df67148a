//! What a prompt can make it do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Agent, send};

/// More than a client keeps that does not listen.
const CHATTER: usize = 3000;
/// How often a step that waits looks whether it may go on.
const TICK: Duration = Duration::from_millis(5);

impl Agent {
    /// Takes a prompt; the reason why it stopped, and what it says too late.
    pub(crate) fn prompt(&mut self, params: &Value) -> (&'static str, Vec<String>) {
        let block = |block: &Value| block["text"].as_str().unwrap_or_default().to_owned();
        let blocks: Vec<String> =
            params["prompt"].as_array().expect("blocks").iter().map(block).collect();
        let last = blocks.last().cloned().unwrap_or_default();
        let home = self.home.clone();
        let Some(open) = &mut self.open else { return ("refusal", vec![]) };
        let goes_on = last.starts_with("<decision>");
        if goes_on && open.doing.is_empty() {
            open.doing = last.lines().filter_map(decided).collect();
        } else if !goes_on {
            open.doing = last.split_once(':').map_or(vec![], |(_, steps)| {
                steps.split(';').map(|step| step.trim().to_owned()).collect()
            });
        }
        open.add("user", &blocks.join("\n\n"));
        home.prompted(open, &blocks);
        home.keep(open);
        let steps = open.doing.clone();
        self.cancelled = false;
        let (mut answer, mut late) = (String::new(), Vec::new());
        for (n, step) in steps.iter().enumerate() {
            let (verb, rest) = step.split_once(' ').unwrap_or((step.as_str(), ""));
            if self.cancelled && verb != "insist" {
                break;
            }
            if let Some(open) = &mut self.open {
                // What a crash cuts off is the step that it goes on with.
                open.doing = steps[n..].to_vec();
                home.keep(open);
            }
            match verb {
                "late" => late.push(rest.to_owned()),
                _ => answer.push_str(&self.step(verb, rest, goes_on)),
            }
        }
        let Some(open) = &mut self.open else { return ("refusal", vec![]) };
        open.doing.clear();
        if self.cancelled && home.has("forgets-cancelled") {
            open.said.pop();
        } else {
            open.add("agent", &answer);
        }
        home.keep(open);
        (if self.cancelled { "cancelled" } else { "end_turn" }, late)
    }

    fn step(&mut self, verb: &str, rest: &str, goes_on: bool) -> String {
        match verb {
            "say" => self.tell(rest),
            "think" => {
                self.update(json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": rest}}));
                String::new()
            }
            "wait" => self.gate(rest, true),
            // As `wait`, but it does not hear that it is to stop.
            "stare" => self.gate(rest, false),
            "run" => {
                let id = self.call(rest);
                self.done(&id, rest)
            }
            // The second asks although it is to stop.
            "ask" | "insist" => self.ask(&[rest.to_owned()]),
            "both" => {
                self.ask(&rest.split(',').map(|line| line.trim().to_owned()).collect::<Vec<_>>())
            }
            // Asks something else once it was started again.
            "waver" if goes_on => self.ask(&[format!("{rest} really")]),
            "waver" => self.ask(&[rest.to_owned()]),
            // Asks for the last only; for all of them once it was started again.
            "relapse" => {
                let lines: Vec<&str> = rest.split(", ").collect();
                let from = if goes_on { 0 } else { lines.len() - 1 };
                lines[from..].iter().map(|line| self.ask(&[(*line).to_owned()])).collect()
            }
            "write" => {
                let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                let asked =
                    self.request("fs/write_text_file", json!({"path": path, "content": content}));
                self.hear_out(asked)
            }
            "read" => {
                let asked = self.request("fs/read_text_file", json!({"path": rest}));
                self.hear_out(asked)
            }
            // As `write`, told as a call as well.
            "edit" => {
                let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                let asked =
                    self.request("fs/write_text_file", json!({"path": path, "content": content}));
                self.answer(asked);
                self.update(json!({"sessionUpdate": "tool_call", "toolCallId": "edit", "title": "Edit", "kind": "edit",
                    "status": "completed", "locations": [{"path": path}]}));
                String::new()
            }
            "terminal" => self.terminal(rest),
            "elicit" => {
                let field = json!({"colour": {"type": "string", "enum": ["red", "blue"]}});
                let params = json!({"mode": "form", "message": rest, "requestedSchema": {"type": "object", "properties": field}});
                let asked = self.request("elicitation/create", params);
                self.hear_out(asked)
            }
            "tool" => self.mcp(rest),
            "noise" => self.noise(),
            "children" => self.children(),
            "die" => std::process::exit(3),
            other => panic!("no such step: {other}"),
        }
    }

    fn tell(&self, words: &str) -> String {
        self.say(words);
        words.to_owned()
    }

    fn gate(&mut self, gate: &str, hears: bool) -> String {
        self.home.event(json!({"what": "waits", "at": gate}));
        let is_over = |agent: &Self| agent.home.is_open(gate) || (hears && agent.cancelled);
        while !is_over(self) {
            if !self.pump(Some(TICK)) {
                std::process::exit(0);
            }
        }
        String::new()
    }

    /// Says what the client answered.
    fn hear_out(&mut self, asked: u64) -> String {
        let answer = self.answer(asked);
        let answer = answer.get("error").or(answer.get("result")).cloned().unwrap_or_default();
        self.home.event(json!({"what": "answer", "answer": answer}));
        self.tell(&answer.to_string())
    }

    fn call(&self, line: &str) -> String {
        let id = format!("call-{}-{}", line.replace(' ', "-"), std::process::id());
        self.update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "shell", "kind": "execute", "status": "pending", "rawInput": {}}));
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": line, "rawInput": {"command": line}}));
        id
    }

    /// The effect: a line in a file of the working directory.
    fn done(&self, id: &str, line: &str) -> String {
        let file = std::fs::OpenOptions::new().create(true).append(true).open("effects");
        file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
            .expect("an effect");
        let output = json!({"output": format!("did {line}"), "metadata": {"exit": 0}});
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "rawOutput": output}));
        String::new()
    }

    /// Asks whether it may do each of these, all at once. The names of the choices differ from process to process.
    fn ask(&mut self, lines: &[String]) -> String {
        let me = std::process::id();
        let mut asked = Vec::new();
        for line in lines {
            let id = self.call(line);
            let call = json!({"toolCallId": id, "title": line, "kind": "execute", "status": "pending", "rawInput": {"command": line}});
            let options = json!([{"optionId": format!("yes-{me}"), "name": "Yes", "kind": "allow_once"},
                {"optionId": format!("no-{me}"), "name": "No", "kind": "reject_once"}]);
            let request = self.request(
                "session/request_permission",
                json!({"toolCall": call, "options": options}),
            );
            asked.push((request, id, line.clone()));
        }
        // Agents go on talking while they wait.
        while !self.answers.contains_key(&asked[0].0) && self.pump(Some(TICK)) {
            if self.home.is_open("chatter") && !self.home.is_open("chattered") {
                for n in 0..CHATTER {
                    self.update(
                        json!({"sessionUpdate": "usage_update", "used": n, "size": CHATTER}),
                    );
                    if n == CHATTER / 3 {
                        self.home.open_gate("chattered");
                    }
                }
            }
        }
        for (request, id, line) in asked {
            let outcome = self.answer(request)["result"]["outcome"].clone();
            self.home.event(json!({"what": "permission", "line": line, "outcome": outcome}));
            if outcome["optionId"] == format!("yes-{me}") {
                self.done(&id, &line);
            } else {
                let refused = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed", "rawOutput": "refused"});
                self.update(refused);
            }
        }
        String::new()
    }

    /// `DIR LINE`: runs a line in a directory of the client.
    fn terminal(&mut self, rest: &str) -> String {
        let (dir, line) = rest.split_once(' ').unwrap_or((".", rest));
        let asked = self.request("terminal/create", json!({"command": line, "cwd": dir}));
        let made = self.answer(asked);
        let Some(id) = made["result"]["terminalId"].as_str() else {
            return self.tell(&made["error"].to_string());
        };
        let id = json!({"terminalId": id});
        let content = json!([{"type": "terminal", "terminalId": id["terminalId"]}]);
        self.update(json!({"sessionUpdate": "tool_call", "toolCallId": id["terminalId"], "title": line, "kind": "execute",
            "status": "in_progress", "content": content}));
        let asked = self.request("terminal/wait_for_exit", id.clone());
        let exit = self.answer(asked)["result"]["exitCode"].clone();
        let asked = self.request("terminal/output", id.clone());
        let output = self.answer(asked)["result"]["output"].clone();
        let asked = self.request("terminal/release", id.clone());
        self.answer(asked);
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id["terminalId"], "status": "completed"}));
        self.tell(&format!("{exit}: {output}"))
    }

    /// Puts a question through the tool `ask_user` of the first MCP server.
    fn mcp(&self, question: &str) -> String {
        let server = &self.servers[0];
        let Some(command) = server["command"].as_str() else { return self.tell("no server") };
        let args = server["args"].as_array().cloned().unwrap_or_default();
        let mut child = Command::new(command);
        child.args(args.iter().filter_map(Value::as_str));
        for variable in server["env"].as_array().into_iter().flatten() {
            child.env(
                variable["name"].as_str().unwrap_or_default(),
                variable["value"].as_str().unwrap_or_default(),
            );
        }
        let mut child =
            child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server");
        let mut stdin = child.stdin.take().expect("piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut ask = |id: u64, method: &str, params: Value| {
            writeln!(
                stdin,
                "{}",
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            )
            .expect("written");
            let mut line = String::new();
            stdout.read_line(&mut line).expect("an answer");
            serde_json::from_str::<Value>(&line).expect("JSON")
        };
        ask(
            1,
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}),
        );
        let tools = ask(2, "tools/list", json!({}));
        let names: Vec<&str> = tools["result"]["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        let answer =
            ask(3, "tools/call", json!({"name": "ask_user", "arguments": {"question": question}}));
        let words = format!("{names:?} {}", answer["result"]["content"][0]["text"]);
        drop(stdin);
        let _ = child.wait();
        self.tell(&words)
    }

    /// Everything that a client must survive.
    fn noise(&mut self) -> String {
        println!("Loading the model…\n{{\"half\": ");
        eprintln!("a warning on stderr");
        send(
            &json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"sessionId": self.id()}}),
        );
        self.update(json!({"sessionUpdate": "never_heard_of", "content": 7}));
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "orphan", "status": "completed", "title": "an orphan"}));
        send(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "another",
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "for somebody else"}}}}),
        );
        let asked = self.request("craft/drainMidTurnQueue", json!({}));
        let refused = self.answer(asked)["error"]["code"].clone();
        let huge = "x".repeat(33 * 1024 * 1024);
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": huge}}));
        self.tell(&format!("refused with {refused}"))
    }

    /// Starts two that would outlive it: one that does not mind being told to end, one in a session of its own.
    fn children(&self) -> String {
        for (name, program) in [("stubborn", vec!["sh"]), ("apart", vec!["setsid", "sh"])] {
            let script = "trap '' TERM; while :; do sleep 1; done";
            let mut command = Command::new(program[0]);
            command
                .args(&program[1..])
                .args(["-c", script])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut child = command.spawn().expect("a child");
            self.home.event(json!({"what": "child", "name": name, "child": child.id()}));
            std::thread::spawn(move || child.wait());
        }
        String::new()
    }
}

/// The command of a decision that the client tells in words.
fn decided(line: &str) -> Option<String> {
    let (_, input) = line.strip_prefix("- ")?.split_once(" with ")?;
    Some(format!("ask {}", serde_json::from_str::<Value>(input).ok()?["command"].as_str()?))
}
