//! The steps that a prompt can contain.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Agent, send};

/// More updates than a client that does not read can buffer.
const CHATTER_UPDATES: usize = 3000;
/// Poll interval of a step that waits.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Agent {
    /// Executes a prompt. Returns the stop reason and texts that are sent after the response.
    pub(crate) fn prompt(&mut self, params: &Value) -> (&'static str, Vec<String>) {
        let block = |block: &Value| block["text"].as_str().unwrap_or_default().to_owned();
        let blocks: Vec<String> =
            params["prompt"].as_array().expect("blocks").iter().map(block).collect();
        let last = blocks.last().cloned().unwrap_or_default();
        let home = self.home.clone();
        let Some(open) = &mut self.open else { return ("refusal", vec![]) };
        let is_restarted = last.starts_with("<decision>");
        if is_restarted && open.open_steps.is_empty() {
            open.open_steps = last.lines().filter_map(decided_command).collect();
        } else if !is_restarted {
            let given = home.take_next_steps();
            let steps = given.as_deref().or(last.split_once(':').map(|(_, steps)| steps));
            open.open_steps = steps.map_or(vec![], |steps| {
                steps.split(';').map(|step| step.trim().to_owned()).collect()
            });
        }
        open.add("user", &blocks.join("\n\n"));
        home.log_prompt(open, &blocks);
        home.store(open);
        let steps = open.open_steps.clone();
        self.cancelled = false;
        let (mut answer, mut late) = (String::new(), Vec::new());
        for (n, step) in steps.iter().enumerate() {
            let (verb, rest) = step.split_once(' ').unwrap_or((step.as_str(), ""));
            if self.cancelled && verb != "insist" {
                break;
            }
            if let Some(open) = &mut self.open {
                // A restarted agent repeats the step that a crash interrupted.
                open.open_steps = steps[n..].to_vec();
                home.store(open);
            }
            match verb {
                "late" => late.push(rest.to_owned()),
                _ => answer.push_str(&self.step(verb, rest, is_restarted)),
            }
        }
        let Some(open) = &mut self.open else { return ("refusal", vec![]) };
        open.open_steps.clear();
        if self.cancelled && home.has_habit("forgets-cancelled") {
            open.messages.pop();
        } else {
            open.add("agent", &answer);
        }
        home.store(open);
        (if self.cancelled { "cancelled" } else { "end_turn" }, late)
    }

    fn step(&mut self, verb: &str, rest: &str, is_restarted: bool) -> String {
        match verb {
            "say" => self.answer_text(rest),
            "think" => {
                let content = json!({"type": "text", "text": rest});
                self.update(json!({"sessionUpdate": "agent_thought_chunk", "content": content}));
                String::new()
            }
            "wait" => self.wait_at_gate(rest, true),
            // Like `wait`, but ignores a cancellation.
            "stare" => self.wait_at_gate(rest, false),
            "run" => {
                let id = self.report_call(rest);
                self.perform(&id, rest)
            }
            // `insist` asks even after a cancellation.
            "ask" | "insist" => self.ask_permission(&[rest.to_owned()]),
            "both" => self.ask_permission(
                &rest.split(',').map(|line| line.trim().to_owned()).collect::<Vec<_>>(),
            ),
            // Asks for another command after a restart.
            "waver" if is_restarted => self.ask_permission(&[format!("{rest} really")]),
            "waver" => self.ask_permission(&[rest.to_owned()]),
            // Asks for the last command only; after a restart, for all of them.
            "relapse" => {
                let lines: Vec<&str> = rest.split(", ").collect();
                let from = if is_restarted { 0 } else { lines.len() - 1 };
                lines[from..]
                    .iter()
                    .map(|line| self.ask_permission(&[(*line).to_owned()]))
                    .collect()
            }
            "write" => {
                let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                let request_id =
                    self.request("fs/write_text_file", json!({"path": path, "content": content}));
                self.answer_with_response(request_id)
            }
            "read" => {
                let request_id = self.request("fs/read_text_file", json!({"path": rest}));
                self.answer_with_response(request_id)
            }
            // Like `write`, and reports a tool call too.
            "edit" => {
                let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                let request_id =
                    self.request("fs/write_text_file", json!({"path": path, "content": content}));
                self.wait_for_response(request_id);
                self.update(json!({"sessionUpdate": "tool_call", "toolCallId": "edit",
                    "title": "Edit", "kind": "edit", "status": "completed",
                    "locations": [{"path": path}]}));
                String::new()
            }
            "terminal" => self.terminal(rest),
            "elicit" => {
                let field = json!({"colour": {"type": "string", "enum": ["red", "blue"]}});
                let schema = json!({"type": "object", "properties": field});
                let params = json!({"mode": "form", "message": rest, "requestedSchema": schema});
                let request_id = self.request("elicitation/create", params);
                self.answer_with_response(request_id)
            }
            "tool" => self.call_mcp_tool(rest),
            "cost" => {
                let cost =
                    json!({"amount": rest.parse::<f64>().expect("an amount"), "currency": "USD"});
                self.update(
                    json!({"sessionUpdate": "usage_update", "used": 8, "size": 1000, "cost": cost}),
                );
                String::new()
            }
            "noise" => self.send_noise(),
            "children" => self.start_children(),
            "die" => std::process::exit(3),
            other => panic!("no such step: {other}"),
        }
    }

    fn answer_text(&self, text: &str) -> String {
        self.send_text(text);
        text.to_owned()
    }

    fn wait_at_gate(&mut self, gate: &str, stops_on_cancel: bool) -> String {
        self.home.event(json!({"what": "waits", "at": gate}));
        let is_done =
            |agent: &Self| agent.home.is_open(gate) || (stops_on_cancel && agent.cancelled);
        while !is_done(self) {
            if !self.handle_next(Some(POLL_INTERVAL)) {
                std::process::exit(0);
            }
        }
        String::new()
    }

    /// Sends the client's response back as text.
    fn answer_with_response(&mut self, request_id: u64) -> String {
        let answer = self.wait_for_response(request_id);
        let answer = answer.get("error").or(answer.get("result")).cloned().unwrap_or_default();
        self.home.event(json!({"what": "answer", "answer": answer}));
        self.answer_text(&answer.to_string())
    }

    fn report_call(&self, line: &str) -> String {
        let id = format!("call-{}-{}", line.replace(' ', "-"), std::process::id());
        self.update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "shell",
            "kind": "execute", "status": "pending", "rawInput": {}}));
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": line,
            "rawInput": {"command": line}}));
        id
    }

    /// The effect of a command: a line in a file of the working directory.
    fn perform(&self, id: &str, line: &str) -> String {
        let file = std::fs::OpenOptions::new().create(true).append(true).open("effects");
        file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
            .expect("an effect");
        let output = json!({"output": format!("did {line}"), "metadata": {"exit": 0}});
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id,
            "status": "completed", "rawOutput": output}));
        String::new()
    }

    /// Requests a permission for each command, all at once. Option ids differ between processes.
    fn ask_permission(&mut self, lines: &[String]) -> String {
        let pid = std::process::id();
        let mut request_id = Vec::new();
        for line in lines {
            let id = self.report_call(line);
            let call = json!({"toolCallId": id, "title": line, "kind": "execute",
                "status": "pending", "rawInput": {"command": line}});
            let options = json!([
                {"optionId": format!("yes-{pid}"), "name": "Yes", "kind": "allow_once"},
                {"optionId": format!("no-{pid}"), "name": "No", "kind": "reject_once"},
            ]);
            let request = self.request(
                "session/request_permission",
                json!({"toolCall": call, "options": options}),
            );
            request_id.push((request, id, line.clone()));
        }
        // Agents send updates while they wait.
        while !self.responses.contains_key(&request_id[0].0)
            && self.handle_next(Some(POLL_INTERVAL))
        {
            if self.home.is_open("chatter") && !self.home.is_open("chattered") {
                for n in 0..CHATTER_UPDATES {
                    let size = CHATTER_UPDATES;
                    self.update(json!({"sessionUpdate": "usage_update", "used": n, "size": size}));
                    if n == CHATTER_UPDATES / 3 {
                        self.home.open_gate("chattered");
                    }
                }
            }
        }
        for (request, id, line) in request_id {
            let outcome = self.wait_for_response(request)["result"]["outcome"].clone();
            self.home.event(json!({"what": "permission", "line": line, "outcome": outcome}));
            if outcome["optionId"] == format!("yes-{pid}") {
                self.perform(&id, &line);
            } else {
                self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id,
                    "status": "failed", "rawOutput": "refused"}));
            }
        }
        String::new()
    }

    /// `DIR LINE`: runs a command line in a terminal of the client.
    fn terminal(&mut self, rest: &str) -> String {
        let (dir, line) = rest.split_once(' ').unwrap_or((".", rest));
        let request_id = self.request("terminal/create", json!({"command": line, "cwd": dir}));
        let made = self.wait_for_response(request_id);
        let Some(id) = made["result"]["terminalId"].as_str() else {
            return self.answer_text(&made["error"].to_string());
        };
        let id = json!({"terminalId": id});
        let content = json!([{"type": "terminal", "terminalId": id["terminalId"]}]);
        self.update(json!({"sessionUpdate": "tool_call", "toolCallId": id["terminalId"],
            "title": line, "kind": "execute", "status": "in_progress", "content": content}));
        let request_id = self.request("terminal/wait_for_exit", id.clone());
        let exit = self.wait_for_response(request_id)["result"]["exitCode"].clone();
        let request_id = self.request("terminal/output", id.clone());
        let output = self.wait_for_response(request_id)["result"]["output"].clone();
        let request_id = self.request("terminal/release", id.clone());
        self.wait_for_response(request_id);
        self.update(json!({"sessionUpdate": "tool_call_update",
            "toolCallId": id["terminalId"], "status": "completed"}));
        self.answer_text(&format!("{exit}: {output}"))
    }

    /// Calls the tool `ask_user` of the first MCP server.
    fn call_mcp_tool(&self, question: &str) -> String {
        let server = &self.servers[0];
        let Some(command) = server["command"].as_str() else {
            return self.answer_text("no server");
        };
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
        let mut call = |id: u64, method: &str, params: Value| {
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
        let client = json!({"name": "agent", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        call(1, "initialize", params);
        let tools = call(2, "tools/list", json!({}));
        let names: Vec<&str> = tools["result"]["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        let answer =
            call(3, "tools/call", json!({"name": "ask_user", "arguments": {"question": question}}));
        let text = format!("{names:?} {}", answer["result"]["content"][0]["text"]);
        drop(stdin);
        let _ = child.wait();
        self.answer_text(&text)
    }

    /// Sends everything that a client must tolerate.
    fn send_noise(&mut self) -> String {
        println!("Loading the model…\n{{\"half\": ");
        eprintln!("a warning on stderr");
        let params = json!({"sessionId": self.id()});
        send(&json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": params}));
        self.update(json!({"sessionUpdate": "never_heard_of", "content": 7}));
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "orphan",
            "status": "completed", "title": "an orphan"}));
        let content = json!({"type": "text", "text": "for another session"});
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        let params = json!({"sessionId": "another", "update": update});
        send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        let request_id = self.request("craft/drainMidTurnQueue", json!({}));
        let refused = self.wait_for_response(request_id)["error"]["code"].clone();
        let huge = "x".repeat(33 * 1024 * 1024);
        let content = json!({"type": "text", "text": huge});
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
        self.answer_text(&format!("refused with {refused}"))
    }

    /// Starts two processes that survive the agent: one ignores SIGTERM, the other has a session of
    /// its own.
    fn start_children(&self) -> String {
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

/// The command of a decision in the client's text.
fn decided_command(line: &str) -> Option<String> {
    let (_, input) = line.strip_prefix("- ")?.split_once(" with ")?;
    Some(format!("ask {}", serde_json::from_str::<Value>(input).ok()?["command"].as_str()?))
}
